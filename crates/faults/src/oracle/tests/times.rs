//! Times that cannot be, and times that may.

use super::*;

/// A delivery of the job that was published at 0 to 5 ms, with an id of this time, reserved at that time.
fn came(created: u64, reserved: u64) -> Tale {
    let got = Delivered {
        created: T0 + created,
        elapsed: reserved - created,
        ..delivered(reserved, 0)
    };
    let tale = Tale::new().publish(terms(5 * S, 0, 1));
    let tale = tale.deliver_as(reserved, got);
    tale.ack(reserved + 5 * MS, Outcome::Deleted)
}

#[test]
fn a_job_is_early_whatever_its_id_says() {
    let mut early = Tale::new().publish(terms(5 * S, 0, 1));
    let got = Delivered {
        // Stored 4.4 s before its publish was sent, so that it seems due.
        created: T0 - 4400 * MS,
        elapsed: 5 * S,
        ..delivered(600 * MS, 0)
    };
    early = early.deliver_as(600 * MS, got);
    early
        .ack(S, Outcome::Deleted)
        .expect(&[Defect::Foreign, Defect::Early]);
    came(MS, 5 * S + MS).expect(&[]);
}

#[test]
fn an_id_says_when_its_job_was_stored_to_the_ms() {
    came(0, 5 * S).expect(&[]);
    came(5 * MS, 5 * S + 5 * MS).expect(&[]);
    came(6 * MS, 5 * S + 6 * MS).expect(&[Defect::Foreign]);
}

#[test]
fn a_lease_begins_while_it_is_asked_for() {
    let told = |reserved: u64| {
        let got = delivered(reserved, 2);
        let answer = Outcome::Delivered(vec![got]);
        let mut tale = Tale::new().publish(terms(0, 0, 3));
        tale.0.bound = 2 * S;
        let tale = tale.consume(span(S, 1050 * MS), answer);
        tale.ack(2 * S, Outcome::Deleted)
    };
    told(S - MS).expect(&[Defect::Foreign]);
    told(S).expect(&[]);
    told(1050 * MS).expect(&[]);
    told(1051 * MS).expect(&[Defect::Foreign]);
}

#[test]
fn a_job_does_not_come_once_it_has_expired() {
    let expired = |at| {
        let tale = Tale::new().publish(terms(0, 2500 * MS, 3)).deliver(MS, 2);
        tale.deliver(at, 1).ack(at + 5 * MS, Outcome::Deleted)
    };
    expired(2500 * MS).expect(&[]);
    expired(2503 * MS).expect(&[Defect::AfterItsEnd]);
    // What died before it expired does not expire any more.
    let dead = Tale::new().publish(terms(0, 3 * S, 1)).deliver(MS, 0);
    let dead = dead.respawn(6 * S).deliver(6 * S + 2 * MS, 0);
    dead.ack(7 * S, Outcome::Deleted).expect(&[]);
}

/// Every job comes up to 5 s late, as if no doorbell ever rang.
#[test]
fn what_waits_for_the_next_poll_is_late() {
    let mut history = History {
        bound: 300 * MS,
        began: T0,
        ended: T0 + 60 * S,
        ..History::default()
    };
    for number in 0..100 {
        let at = number * 400 * MS;
        let poll = (at / (5 * S) + 1) * 5 * S;
        let tale = Tale::new()
            .publish(terms(0, 0, 1))
            .deliver(poll - at, 0)
            .ack(poll - at + MS, Outcome::Deleted);
        for mut operation in tale.0.operations {
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

/// Makes it about another job, as much later as its span.
fn renumber(operation: &mut Operation, to: u64) {
    let at = operation.span.from;
    match &mut operation.request {
        Request::Publish { jobs, .. } => jobs[0].number = to,
        Request::Ack { job } => *job = to,
        _ => {}
    }
    match &mut operation.outcome {
        Outcome::Published(ids) => ids[0] = to.to_string(),
        Outcome::Delivered(jobs) if !jobs.is_empty() => {
            jobs[0].number = Some(to);
            jobs[0].id = to.to_string();
            jobs[0].created += to * 400 * MS;
            assert!(jobs[0].reserved() >= at);
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
    let late = Tale::new().publish(terms(0, 0, 1)).deliver(50 * S, 0);
    let mut late = late.ack(60 * S, Outcome::Deleted);
    late.expect(&[Defect::Late]);
    late.0.bound = S + 1;
    late.expect(&[]);
}

#[test]
fn a_busy_second_excuses_that_a_job_is_late() {
    let tale = Tale::new().publish(terms(0, 0, 1)).deliver(2 * S, 0);
    let mut tale = tale.ack(3 * S, Outcome::Deleted);
    tale.expect(&[Defect::Late]);
    tale.0.busy.push(span(500 * MS, 1600 * MS));
    tale.expect(&[]);
}

/// What Redis lost explains neither that a job came late, nor that another lease was forgotten.
#[test]
fn a_loss_excuses_what_was_lost_only() {
    let loss = span(10 * S, 11 * S);
    let with_loss = |tale: Tale| tale.episode(Class::Failover, loss, Some(loss));
    let life = |second| {
        let tale = Tale::new().publish(terms(0, 0, 4)).deliver(2 * MS, 3);
        tale.deliver(second, 2)
    };
    // The third delivery was forgotten, so it comes again, with the same tries.
    let forgotten = |tale: Tale| {
        let tale = with_loss(tale).deliver(10 * S + 500 * MS, 1);
        tale.deliver(11 * S + 500 * MS, 1)
            .ack(12 * S, Outcome::Deleted)
    };
    let busy = |tale: Tale| {
        let mut tale = forgotten(tale);
        tale.0.busy.push(span(4 * S, 10 * S));
        tale
    };
    busy(life(TTR + 3 * MS)).expect(&[]);
    busy(life(TTR + MS)).expect(&[Defect::Doubled]);
    busy(life(TTR + 1100 * MS)).expect(&[Defect::Late]);
    forgotten(life(TTR + 3 * MS)).expect(&[Defect::Late]);
}

/// Published while Redis's clock was a minute ahead: it comes a minute late, and by its id it was not there yet.
#[test]
fn a_clock_of_redis_that_is_moved_tells_no_times() {
    let ahead = 60 * S;
    let got = Delivered {
        created: T0 + ahead,
        elapsed: S,
        ..delivered(MS, 0)
    };
    let tale = Tale::new().publish(terms(S, 0, 1));
    let tale = tale.deliver_as(ahead + S, got);
    let moved = |tale: Tale| tale.episode(Class::RedisClock, span(0, 500 * MS), None);
    let acked = tale.clone().ack(ahead + 2 * S, Outcome::Deleted);
    moved(acked.clone()).expect(&[]);
    acked.expect(&[Defect::Foreign]);
    // It is not lost, either.
    moved(tale).expect(&[Defect::Lost]);
}

/// Its only consumer was busy with something else.
#[test]
fn a_job_that_nobody_asks_for_is_not_late() {
    let tale = |asked: Span, at: u64| {
        let mut tale = Tale::new();
        tale.0.operations.clear();
        let tale = tale.publish(terms(0, 0, 1));
        let tale = tale.consume(asked, Outcome::Delivered(Vec::new()));
        let tale = tale.deliver(at, 0);
        tale.ack(at + 5 * MS, Outcome::Deleted)
    };
    tale(span(0, 500 * MS), 20 * S).expect(&[]);
    tale(span(0, S), 20 * S).expect(&[Defect::Late]);
    // A consume that failed asked, too; one that was refused did not.
    let failed = |outcome| {
        let tale = tale(span(0, 500 * MS), 20 * S);
        tale.consume(span(5 * S, 5500 * MS), outcome)
    };
    failed(Outcome::Failed(500)).expect(&[Defect::Late, Defect::Refused]);
    failed(Outcome::Refused(429)).expect(&[]);
}

/// Its consumer has a job of another queue, and does not ask for this one while it reads that.
#[test]
fn a_consumer_asks_until_a_job_is_reserved_for_it() {
    let tale = |queue: u16| {
        let mut tale = Tale::new();
        tale.0.operations.clear();
        let mut got = delivered(200 * MS, 0);
        (got.queue, got.number) = (queue, Some(u64::from(queue)));
        let job = Terms {
            number: 4,
            ..terms(0, 0, 1)
        };
        let other = Request::Publish {
            queue: 4,
            jobs: vec![job],
        };
        let tale =
            tale.publish(terms(0, 0, 1))
                .ask(0, other, Outcome::Published(vec!["id".to_owned()]));
        let consume = Request::Consume {
            queues: vec![3, 4],
            ttr: TTR,
            count: 1,
        };
        tale.operation(span(0, 3 * S), consume, Outcome::Delivered(vec![got]))
            .ask(3 * S, Request::Ack { job: 4 }, Outcome::Deleted)
    };
    // The one that was reserved was late; the other one was asked for for 200 ms only.
    let verdict = judge(
        &tale(4)
            .deliver(10 * S, 0)
            .ack(10 * S + 5 * MS, Outcome::Deleted)
            .0,
    );
    let late: Vec<u64> = verdict.lateness.iter().map(|it| it.late / MS).collect();
    assert_eq!(late, [300, 2999], "{verdict:#?}");
}
