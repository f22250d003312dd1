//! What may be the end of a job, and what excuses that it is gone.

use super::*;

/// Delivered at 1 s and at 5 s, of three tries.
fn twice() -> Tale {
    let tale = Tale::new().publish(terms(S - 2 * MS, 0, 3)).deliver(S, 2);
    tale.deliver(S + TTR + 3 * MS, 1)
}

#[test]
fn an_open_end_excuses_a_loss_until_the_job_is_seen_again() {
    // Sent before the second delivery, and not answered: it can have been carried out then, not after it.
    twice().ack(S + 9 * MS, left()).expect(&[Defect::Lost]);
    twice().ack(S + TTR + 9 * MS, left()).expect(&[]);
    // One of the first delivery may be carried out after the second one began, as it goes by the id.
    twice().ack(S + TTR, left()).expect(&[]);
    twice()
        .ack(S + TTR + 9 * MS, Outcome::NotSent)
        .expect(&[Defect::Lost]);
    twice()
        .ack(S + TTR + 9 * MS, Outcome::Refused(503))
        .expect(&[Defect::Lost]);
    // While Redis stood still it may have waited for a long time.
    let stood = span(S, S + TTR);
    let waited = twice().ack(S + 9 * MS, left());
    waited
        .clone()
        .episode(Class::RedisPause, stood, None)
        .expect(&[]);
    waited
        .episode(Class::ApiKill, span(0, MS), None)
        .expect(&[Defect::Lost]);
}

/// The replaced master did not have the ack, and delivered the job again before it learned of the failover.
#[test]
fn a_master_that_was_replaced_shows_jobs_that_are_acked() {
    let acked = twice().ack(S + 9 * MS, Outcome::Deleted);
    let failover = |at| acked.clone().episode(Class::Failover, at, Some(at));
    failover(span(S, S + TTR + S)).expect(&[]);
    failover(span(30 * S, 31 * S)).expect(&[Defect::AfterItsEnd, Defect::Lost]);
}

#[test]
fn a_job_that_was_looked_at_was_there() {
    let peek = |tale: Tale, at| {
        let request = Request::Peek {
            queue: 3,
            job: Some(1),
        };
        let got = delivered(at, 0);
        tale.ask(at, request, Outcome::Shown(Some(Box::new(got))))
    };
    let tale = twice().ack(S + TTR + 9 * MS, left());
    peek(tale.clone(), S + TTR + 100 * MS).expect(&[]);
    peek(tale, 2 * S + TTR + 20 * MS).expect(&[Defect::Lost]);
    let tale = twice().ack(S + TTR + 9 * MS, Outcome::Deleted);
    peek(tale.clone(), S + TTR + 9 * MS).expect(&[]);
    peek(tale, S + TTR + 11 * MS).expect(&[Defect::AfterItsEnd, Defect::Lost]);
}

#[test]
fn a_job_that_is_there_is_shown() {
    let nothing = |tale: Tale, at| {
        let request = Request::Peek {
            queue: 3,
            job: Some(1),
        };
        tale.ask(at, request, Outcome::Shown(None))
    };
    let tale = Tale::new().publish(terms(0, 0, 1)).deliver(2 * MS, 0);
    nothing(tale.clone().ack(S, Outcome::Deleted), 900 * MS).expect(&[Defect::Lost]);
    nothing(tale.clone().ack(S, Outcome::Deleted), S).expect(&[]);
    nothing(tale.ack(S, Outcome::Deleted), 0).expect(&[]);
    let expires = Tale::new().publish(terms(0, 2 * S, 1));
    nothing(expires, 2 * S).expect(&[Defect::Lost]);
}

#[test]
fn two_consumers_never_hold_a_job_at_once_however_many_they_ask_for() {
    let batches = |second: u64| {
        let tale = Tale::new().publish(terms(0, 0, 3)).deliver(100 * MS, 2);
        let mut tale = tale.deliver(second, 1).ack(4 * S, Outcome::Deleted);
        for operation in &mut tale.0.operations {
            if let Request::Consume { count, .. } = &mut operation.request {
                *count = 4;
            }
        }
        tale
    };
    batches(TTR + 100 * MS).expect(&[]);
    batches(TTR + 99 * MS).expect(&[Defect::Doubled]);
    batches(100 * MS).expect(&[Defect::Doubled]);
}

#[test]
fn a_batch_brings_nothing_that_was_acked_before() {
    let mut tale = Tale::new().publish(terms(0, 0, 3)).deliver(2 * MS, 2);
    tale = tale.ack(S, Outcome::Deleted);
    let answer = Outcome::Delivered(vec![delivered(3 * S, 1)]);
    let request = Request::Consume {
        queues: vec![3],
        ttr: TTR,
        count: 4,
    };
    // It had been asked for before the ack.
    let tale = tale.operation(span(500 * MS, 3 * S + MS), request, answer);
    tale.ack(3 * S + 5 * MS, Outcome::Deleted)
        .expect(&[Defect::AfterItsEnd]);
}

#[test]
fn a_job_that_is_replaced_is_gone_and_the_new_one_is_there() {
    let replaced = |outcome| {
        let job = Terms {
            number: 2,
            ..terms(S, 0, 1)
        };
        let request = Request::Republish {
            queue: 3,
            replaced: 1,
            job,
        };
        Tale::new()
            .publish(terms(3 * S, 0, 1))
            .ask(S, request, outcome)
    };
    let published = replaced(Outcome::Published(vec!["new".to_owned()]));
    published.expect(&[Defect::Lost]);
    let new = Delivered {
        number: Some(2),
        id: "new".to_owned(),
        created: T0 + S,
        elapsed: S + MS,
        ..delivered(S, 0)
    };
    let came = published.deliver_as(2 * S + MS, new);
    let came = came.ask(2 * S + 5 * MS, Request::Ack { job: 2 }, Outcome::Deleted);
    came.expect(&[]);
    let came = came.deliver(3 * S + 2 * MS, 0);
    came.ack(4 * S, Outcome::Deleted)
        .expect(&[Defect::AfterItsEnd]);
    replaced(left()).expect(&[]);
    replaced(Outcome::Refused(429)).expect(&[Defect::Lost]);
}

#[test]
fn a_dead_letter_shows_dead_jobs_of_its_queue() {
    let head = |at, queue| {
        let dead = Outcome::DeadLetter {
            head: Some("id".to_owned()),
            size: 1,
        };
        let tale = Tale::new().publish(terms(0, 0, 1)).deliver(2 * MS, 0);
        let tale = tale.ask(at, Request::PeekDead { queue }, dead);
        tale.ack(5 * S, Outcome::Deleted)
    };
    head(4 * S, 3).expect(&[]);
    head(4 * S, 4).expect(&[Defect::Foreign]);
    head(5 * S + 2 * MS, 3).expect(&[Defect::AfterItsEnd]);
}
