//! Impossible times, and possible ones.

use super::*;

/// A delivery of a job that was published from 0 to 5 ms, created and reserved at these times.
fn delivered_at(created: u64, reserved: u64) -> HistoryBuilder {
    let got = delivery_of(1, created, reserved, 0);
    let history = HistoryBuilder::new().publish(version_spec(5 * S, 0, 1));
    let history = history.deliver_as(reserved, got);
    history.ack(reserved + 5 * MS, acked())
}

#[test]
fn a_job_is_early_whatever_its_id_says() {
    let mut early = HistoryBuilder::new().publish(version_spec(5 * S, 0, 1));
    let got = Delivery {
        // Stored 4.4 s before its publish was sent, so that it seems due.
        created: Some(T0 - 4400 * MS),
        ..delivered(600 * MS, 0)
    };
    early = early.deliver_as(600 * MS, got);
    early
        .ack(S, acked())
        .expect(&[Defect::Foreign, Defect::Early]);
    delivered_at(MS, 5 * S + MS).expect(&[]);
}

#[test]
fn an_id_has_the_creation_time_to_the_ms() {
    delivered_at(0, 5 * S).expect(&[]);
    delivered_at(5 * MS, 5 * S + 5 * MS).expect(&[]);
    delivered_at(6 * MS, 5 * S + 6 * MS).expect(&[Defect::Foreign]);
}

#[test]
fn a_lease_begins_during_its_consume() {
    let expect_at = |reserved: u64| {
        let got = delivered(reserved, 2);
        let answer = RequestOutcome::Delivered(vec![got]);
        let mut history = HistoryBuilder::new().publish(version_spec(0, 0, 3));
        history.0.bound = 2 * S;
        let history = history.consume(span(S, 1050 * MS), answer);
        history.ack(2 * S, acked())
    };
    expect_at(S - MS).expect(&[Defect::Foreign]);
    expect_at(S).expect(&[]);
    expect_at(1050 * MS).expect(&[]);
    expect_at(1051 * MS).expect(&[Defect::Foreign]);
}

#[test]
fn an_expired_job_is_not_delivered() {
    let expired = |at| {
        let history = HistoryBuilder::new()
            .publish(version_spec(0, 2500 * MS, 3))
            .deliver(MS, 2);
        history.deliver(at, 1).ack(at + 5 * MS, acked())
    };
    expired(2500 * MS).expect(&[]);
    expired(2503 * MS).expect(&[Defect::AfterItsEnd]);
    // A job that died before it expired does not expire.
    let dead = HistoryBuilder::new()
        .publish(version_spec(0, 3 * S, 1))
        .deliver(MS, 0);
    let dead = dead.respawn(6 * S).deliver(6 * S + 2 * MS, 0);
    dead.ack(7 * S, acked()).expect(&[]);
}

/// Every job is up to 5 s late, as if no notification ever arrived.
#[test]
fn a_job_that_is_delivered_by_the_periodic_poll_is_late() {
    let mut history = History {
        bound: 300 * MS,
        began: T0,
        ended: T0 + 60 * S,
        ..History::default()
    };
    for number in 0..100 {
        let at = number * 400 * MS;
        let poll = (at / (5 * S) + 1) * 5 * S;
        let of_one_job = HistoryBuilder::new()
            .publish(version_spec(0, 0, 1))
            .deliver(poll - at, 0)
            .ack(poll - at + MS, acked());
        for mut operation in of_one_job.0.operations {
            operation.span.from += at;
            operation.span.to += at;
            renumber(&mut operation, number);
            history.operations.push(operation);
        }
    }
    let verdict = judge(&history);
    assert!(history.proves_lateness());
    assert!(verdict.count(Defect::Late) > 90, "{verdict:#?}");
    assert_eq!(verdict.count(Defect::Late), verdict.findings.len());
}

/// Changes the job of an operation, and shifts the job's creation time to its span.
fn renumber(operation: &mut Operation, to: u64) {
    let at = operation.span.from;
    match &mut operation.request {
        ClientRequest::Publish { versions, .. } => versions[0].number = to,
        ClientRequest::Settle { .. } => operation.request = ack_of(to),
        _ => {}
    }
    match &mut operation.outcome {
        RequestOutcome::Published(_) => operation.outcome = stored(&[to]),
        RequestOutcome::Delivered(jobs) if !jobs.is_empty() => {
            jobs[0].number = Some(to);
            jobs[0].id = to.to_string();
            let later = to * 400 * MS;
            jobs[0].created = jobs[0].created.map(|created| created + later);
            jobs[0].reserved += later;
            jobs[0].lease_until += later;
            assert!(jobs[0].reserved >= at);
        }
        _ => {}
    }
}

#[test]
fn a_machine_that_was_too_busy_proves_nothing_about_lateness() {
    let history = |bound, busy| History {
        bound,
        busy: vec![span(0, busy)],
        began: T0,
        ended: T0 + 10 * S,
        ..History::default()
    };
    assert!(history(S, 4 * S).proves_lateness());
    assert!(!history(S + 1, 0).proves_lateness());
    assert!(!history(S, 5 * S).proves_lateness());
    let late = HistoryBuilder::new()
        .publish(version_spec(0, 0, 1))
        .deliver(50 * S, 0);
    let mut late = late.ack(60 * S, acked());
    late.expect(&[Defect::Late]);
    late.0.bound = S + 1;
    late.expect(&[]);
}

#[test]
fn a_busy_second_excuses_a_late_job() {
    let history = HistoryBuilder::new()
        .publish(version_spec(0, 0, 1))
        .deliver(2 * S, 0);
    let mut history = history.ack(3 * S, acked());
    history.expect(&[Defect::Late]);
    history.0.busy.push(span(500 * MS, 1600 * MS));
    history.expect(&[]);
}

/// A loss in Redis excuses neither a late job nor the loss of another lease.
#[test]
fn a_loss_excuses_only_what_was_lost() {
    let loss = span(10 * S, 11 * S);
    let with_loss = |history: HistoryBuilder| history.episode(Class::Failover, loss, Some(loss));
    let life = |second| {
        let history = HistoryBuilder::new()
            .publish(version_spec(0, 0, 4))
            .deliver(2 * MS, 3);
        history.deliver(second, 2)
    };
    // The third delivery was lost, so the job is delivered again with the same tries.
    let forgotten = |history: HistoryBuilder| {
        let history = with_loss(history).deliver(10 * S + 500 * MS, 1);
        history.deliver(11 * S + 500 * MS, 1).ack(12 * S, acked())
    };
    let busy = |history: HistoryBuilder| {
        let mut history = forgotten(history);
        history.0.busy.push(span(4 * S, 10 * S));
        history
    };
    busy(life(TTR + 3 * MS)).expect(&[]);
    busy(life(TTR + MS)).expect(&[Defect::Doubled]);
    busy(life(TTR + 1100 * MS)).expect(&[Defect::Late]);
    forgotten(life(TTR + 3 * MS)).expect(&[Defect::Late]);
}

/// Published while Redis's clock was a minute ahead: it is delivered a minute late, and its id has a future
/// time.
#[test]
fn times_are_not_judged_while_the_clock_of_redis_is_wrong() {
    let ahead = 60 * S;
    let got = delivery_of(1, ahead, ahead + S, 0);
    let history = HistoryBuilder::new().publish(version_spec(S, 0, 1));
    let history = history.deliver_as(ahead + S, got);
    let moved =
        |history: HistoryBuilder| history.episode(Class::RedisClock, span(0, 500 * MS), None);
    let acked = history.clone().ack(ahead + 2 * S, acked());
    moved(acked.clone()).expect(&[]);
    acked.expect(&[Defect::Foreign]);
    // It is not lost either.
    moved(history).expect(&[Defect::Lost]);
}

/// Its only consumer was busy.
#[test]
fn a_job_is_not_late_while_no_consumer_requests_jobs() {
    let history = |asked: Span, at: u64| {
        let mut history = HistoryBuilder::new();
        history.0.operations.clear();
        let history = history.publish(version_spec(0, 0, 1));
        let history = history.consume(asked, RequestOutcome::Delivered(Vec::new()));
        let history = history.deliver(at, 0);
        history.ack(at + 5 * MS, acked())
    };
    history(span(0, 500 * MS), 20 * S).expect(&[]);
    history(span(0, S), 20 * S).expect(&[Defect::Late]);
    // A failed consume counts as a request; a rejected one does not.
    let failed = |outcome| {
        let history = history(span(0, 500 * MS), 20 * S);
        history.consume(span(5 * S, 5500 * MS), outcome)
    };
    failed(RequestOutcome::Failed(500)).expect(&[Defect::Late, Defect::Refused]);
    failed(RequestOutcome::Refused(429)).expect(&[]);
}

/// Its consumer has got a job of another queue, and does not request this one while it reads the answer.
#[test]
fn a_consumer_requests_jobs_until_one_is_reserved_for_it() {
    let history = {
        let mut history = HistoryBuilder::new();
        history.0.operations.clear();
        let mut got = delivery_of(4, MS, 200 * MS, 0);
        got.queue = 4;
        let job = VersionSpec {
            number: 4,
            ..version_spec(0, 0, 1)
        };
        let other = ClientRequest::publish(4, job);
        let history = history
            .publish(version_spec(0, 0, 1))
            .request(0, other, stored(&[4]));
        let delivered = RequestOutcome::Delivered(vec![got]);
        history
            .operation(span(0, 3 * S), consume_of(&[3, 4]), delivered)
            .request(3 * S, ack_of(4), acked())
    };
    // The reserved job was late; the other queue was requested for only 200 ms.
    let verdict = judge(&history.deliver(10 * S, 0).ack(10 * S + 5 * MS, acked()).0);
    let late: Vec<u64> = verdict.lateness.iter().map(|it| it.late / MS).collect();
    assert_eq!(late, [300, 2999], "{verdict:#?}");
}
