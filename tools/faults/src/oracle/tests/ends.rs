//! Ends of jobs, and excuses for missing jobs.

use super::*;

/// Delivered at 1 s and at 5 s, of three tries.
fn delivered_twice() -> HistoryBuilder {
    let history = HistoryBuilder::new()
        .publish(version_spec(S - 2 * MS, 0, 3))
        .deliver(S, 2);
    history.deliver(S + TTR + 3 * MS, 1)
}

#[test]
fn an_open_end_excuses_a_loss_until_the_job_is_seen_again() {
    // Sent before the second delivery and not answered: it may have been carried out before that delivery,
    // not after.
    delivered_twice()
        .ack(S + 9 * MS, no_job())
        .expect(&[Defect::Lost]);
    delivered_twice()
        .ack(S + TTR + 9 * MS, no_job())
        .expect(&[]);
    // An ack of the first delivery may be carried out after the second one began, since it names only the
    // id.
    delivered_twice().ack(S + TTR, no_job()).expect(&[]);
    delivered_twice()
        .ack(S + TTR + 9 * MS, RequestOutcome::NotSent)
        .expect(&[Defect::Lost]);
    delivered_twice()
        .ack(S + TTR + 9 * MS, RequestOutcome::Refused(503))
        .expect(&[Defect::Lost]);
    // While Redis was paused, the ack may have waited for a long time.
    let stood = span(S, S + TTR);
    let waited = delivered_twice().ack(S + 9 * MS, no_job());
    waited
        .clone()
        .episode(Class::RedisPause, stood, None)
        .expect(&[]);
    waited
        .episode(Class::ApiKill, span(0, MS), None)
        .expect(&[Defect::Lost]);
}

/// The replaced master did not have the ack, and delivered the job again before it was demoted.
#[test]
fn a_replaced_master_may_show_acked_jobs() {
    let acked = delivered_twice().ack(S + 9 * MS, acked());
    let failover = |at| acked.clone().episode(Class::Failover, at, Some(at));
    failover(span(S, S + TTR + S)).expect(&[]);
    failover(span(30 * S, 31 * S)).expect(&[Defect::AfterItsEnd, Defect::Lost]);
}

#[test]
fn a_peeked_job_existed() {
    let peek = |history: HistoryBuilder, at| {
        let got = Box::new(delivered(at, 0));
        history.request(at, show_of(1), RequestOutcome::Peeked(got))
    };
    let history = delivered_twice().ack(S + TTR + 9 * MS, no_job());
    peek(history.clone(), S + TTR + 100 * MS).expect(&[]);
    peek(history, 2 * S + TTR + 20 * MS).expect(&[Defect::Lost]);
    let history = delivered_twice().ack(S + TTR + 9 * MS, acked());
    peek(history.clone(), S + TTR + 9 * MS).expect(&[]);
    peek(history, S + TTR + 11 * MS).expect(&[Defect::AfterItsEnd, Defect::Lost]);
}

#[test]
fn a_peek_must_show_an_existing_job() {
    let nothing =
        |history: HistoryBuilder, at| history.request(at, show_of(1), RequestOutcome::NotFound);
    let history = HistoryBuilder::new()
        .publish(version_spec(0, 0, 1))
        .deliver(2 * MS, 0);
    nothing(history.clone().ack(S, acked()), 900 * MS).expect(&[Defect::Lost]);
    nothing(history.clone().ack(S, acked()), S).expect(&[]);
    nothing(history.ack(S, acked()), 0).expect(&[]);
    let expires = HistoryBuilder::new().publish(version_spec(0, 2 * S, 1));
    nothing(expires, 2 * S).expect(&[Defect::Lost]);
}

#[test]
fn two_consumers_never_hold_a_job_at_once_however_many_they_ask_for() {
    let batches = |second: u64| {
        let history = HistoryBuilder::new()
            .publish(version_spec(0, 0, 3))
            .deliver(100 * MS, 2);
        let mut history = history.deliver(second, 1).ack(4 * S, acked());
        for operation in &mut history.0.operations {
            if let ClientRequest::Reserve { max_jobs, .. } = &mut operation.request {
                *max_jobs = 4;
            }
        }
        history
    };
    batches(TTR + 100 * MS).expect(&[]);
    batches(TTR + 99 * MS).expect(&[Defect::Doubled]);
    batches(100 * MS).expect(&[Defect::Doubled]);
}

#[test]
fn a_batch_has_no_job_that_was_acked_before() {
    let mut history = HistoryBuilder::new()
        .publish(version_spec(0, 0, 3))
        .deliver(2 * MS, 2);
    history = history.ack(S, acked());
    let answer = RequestOutcome::Delivered(vec![delivered(3 * S, 1)]);
    // The consume began before the ack.
    let history = history.consume(span(500 * MS, 3 * S + MS), answer);
    history
        .ack(3 * S + 5 * MS, acked())
        .expect(&[Defect::AfterItsEnd]);
}

#[test]
fn a_replaced_job_is_gone_and_the_new_one_exists() {
    let replaced = |outcome| {
        let job = VersionSpec {
            number: 2,
            ..version_spec(S, 0, 1)
        };
        let request = ClientRequest::Publish {
            queue: 3,
            mode: PublishMode::Single,
            versions: vec![job],
            replaced: Some("1".to_owned()),
        };
        HistoryBuilder::new()
            .publish(version_spec(3 * S, 0, 1))
            .request(S, request, outcome)
    };
    let published = replaced(stored(&[2]));
    published.expect(&[Defect::Lost]);
    let new = delivery_of(2, S, 2 * S + MS, 0);
    let came = published.deliver_as(2 * S + MS, new);
    let came = came.request(2 * S + 5 * MS, ack_of(2), acked());
    came.expect(&[]);
    let came = came.deliver(3 * S + 2 * MS, 0);
    came.ack(4 * S, acked()).expect(&[Defect::AfterItsEnd]);
    replaced(no_job()).expect(&[]);
    replaced(RequestOutcome::Refused(429)).expect(&[Defect::Lost]);
}

#[test]
fn a_dead_letter_shows_dead_jobs_of_its_queue() {
    let head = |at, queue| {
        let dead = RequestOutcome::DeadLetter(Some("1".to_owned()));
        let history = HistoryBuilder::new()
            .publish(version_spec(0, 0, 1))
            .deliver(2 * MS, 0);
        let history = history.request(at, ClientRequest::PeekDead { queue }, dead);
        history.ack(5 * S, acked())
    };
    head(4 * S, 3).expect(&[]);
    head(4 * S, 4).expect(&[Defect::Foreign]);
    head(5 * S + 2 * MS, 3).expect(&[Defect::AfterItsEnd]);
}
