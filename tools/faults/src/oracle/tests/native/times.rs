//! Due times.

use super::*;

fn came_at(history: NativeHistoryBuilder, at: u64, attempt: u32) -> NativeHistoryBuilder {
    history.deliver(at, 1, attempt).ack(at + 9 * MS, 1, attempt)
}

#[test]
fn a_version_is_neither_early_nor_late() {
    let delayed = NativeHistoryBuilder::new().publish(0, delayed(1, S), PublishResult::Created);
    came_at(delayed.clone(), S + MS, 1).expect(&[]);
    came_at(delayed.clone(), S, 1).expect(&[Defect::Early]);
    came_at(delayed.clone(), 2 * S, 1).expect(&[]);
    came_at(delayed, 2 * S + 5 * MS, 1).expect(&[Defect::Late]);
    // The answer shows a due time that is later than the begin of the lease.
    let shown = NativeHistoryBuilder::new().publish(0, plain(1), PublishResult::Created);
    let shown = shown.deliver_with(2 * MS, 1, 1, |got| got.run_at = Some(T0 + 3 * MS));
    shown.ack(9 * MS, 1, 1).expect(&[Defect::Early]);
}

#[test]
fn a_changed_job_comes_at_its_new_time() {
    let delayed = NativeHistoryBuilder::new().publish(0, delayed(1, 5 * S), PublishResult::Created);
    let to = |run_at, outcome: fn(u64) -> RequestOutcome| {
        let call = ClientRequest::Change {
            queue: QUEUE,
            job: JobAddress::Id("A".to_owned()),
            delay: S,
            run_at: None,
        };
        delayed.clone().request(MS, call, outcome(run_at))
    };
    let changed = |run_at| {
        let id = "A".to_owned();
        RequestOutcome::Due { id, run_at }
    };
    came_at(to(T0 + S, changed), S, 1).expect(&[]);
    came_at(to(T0 + S, changed), S - MS, 1).expect(&[Defect::Early]);
    // Without an answer both times are possible.
    came_at(to(0, |_| no_job()), S + 2 * MS, 1).expect(&[]);
    came_at(to(0, |_| no_job()), 5 * S + 2 * MS, 1).expect(&[]);
    came_at(to(0, |_| no_job()), 500 * MS, 1).expect(&[Defect::Early]);
    let promote = ClientRequest::Promote {
        queue: QUEUE,
        job: JobAddress::Id("A".to_owned()),
    };
    // The begin of a delivery is known to the millisecond, the request to the microsecond.
    let within_ms = S + MS / 2;
    let promoted = delayed.clone();
    let promoted = promoted.request(within_ms, promote.clone(), changed(T0 + S));
    came_at(promoted, S, 1).expect(&[]);
    let promoted = delayed.request(S, promote, changed(T0 + S));
    came_at(promoted.clone(), S + 2 * MS, 1).expect(&[]);
    came_at(promoted, 500 * MS, 1).expect(&[Defect::Early, Defect::AfterItsEnd]);
}

#[test]
fn a_failed_job_is_retried_at_the_time_in_the_answer() {
    let failed = |at| {
        let history = NativeHistoryBuilder::new().publish(0, plain(1), PublishResult::Created);
        let history = history.deliver(2 * MS, 1, 1);
        history.settle(
            10 * MS,
            (1, 1),
            SettleAction::FailRetryIn(S),
            retry_at(T0 + at),
        )
    };
    let again = |history: NativeHistoryBuilder, at| {
        let history = history.deliver_with(at, 1, 2, |got| got.failures = Some(1));
        history.ack(at + 9 * MS, 1, 2)
    };
    again(failed(S + 11 * MS), S + 11 * MS).expect(&[]);
    again(failed(S + 11 * MS), S + 10 * MS).expect(&[Defect::Early]);
    again(failed(S + 11 * MS), 3 * S).expect(&[Defect::Late]);
    // The answer itself is too early, or too late.
    again(failed(S), S + 11 * MS).expect(&[Defect::Early]);
    again(failed(S + 100 * MS), S + 100 * MS).expect(&[Defect::Late]);
}

#[test]
fn a_consumer_acks_within_the_ms_in_which_it_gets_a_job() {
    let at = 3 * S;
    let history = NativeHistoryBuilder::new().publish(0, plain(1), PublishResult::Created);
    let mut history = history.deliver(2 * MS, 1, 1).deliver(at, 1, 2);
    let operations = &mut history.builder.0.operations;
    operations.last_mut().unwrap().span.to = T0 + at + MS / 2;
    let history = history.ack_on_lmstfy(at + MS * 3 / 4);
    history.expect(&[]);
}

// Found by a fault run with seed 47129, and by one without faults.
#[test]
fn an_attempt_on_the_lmstfy_wire_is_not_ended_by_the_worker_of_another() {
    let history = NativeHistoryBuilder::new().publish(0, plain(1), PublishResult::Created);
    let history = history.deliver(2 * MS, 1, 1);
    let release = SettleAction::Release(0);
    let released = history.settle(9 * MS, (1, 1), release, Outcome::Released);
    let lost = released.deliver_to_lmstfy(10 * MS, 1, 10);
    came_at(lost.clone(), TTR + 12 * MS, 3).expect(&[]);
    came_at(lost, TTR + 2 * S, 3).expect(&[Defect::Late]);
}

#[test]
fn retries_climb_the_ladder() {
    let failed = |attempt: u32, failures, at| {
        let mut version = plain(1);
        version.retry = Some(RetryTimes {
            delays: vec![S, 3 * S],
            jitter: 100,
        });
        let history = NativeHistoryBuilder::new().publish(0, version, PublishResult::Created);
        let mut history = history;
        for before in 1..attempt {
            let from = u64::from(before - 1) * 4 * S;
            history = history
                .deliver_with(from + 2 * MS, 1, before, |got| {
                    got.failures = Some(before - 1)
                })
                .settle_with(from + 9 * MS, (1, before), SettleAction::Fail, no_job());
        }
        let from = u64::from(attempt - 1) * 4 * S;
        let history = history.deliver_with(from + 2 * MS, 1, attempt, |got| {
            got.failures = Some(failures)
        });
        history
            .settle(
                from + 9 * MS,
                (1, attempt),
                SettleAction::Fail,
                retry_at(T0 + from + at),
            )
            .cancel(
                from + S / 2,
                IfRunning::Refuse,
                CancelEffect::Deleted(JobState::Delayed),
            )
    };
    failed(1, 0, S + 9 * MS).expect(&[]);
    failed(1, 0, S + 109 * MS).expect(&[]);
    failed(1, 0, S + 8 * MS).expect(&[Defect::Early]);
    failed(1, 0, 3 * S).expect(&[Defect::Late]);
    failed(2, 1, 3 * S + 9 * MS).expect(&[]);
    failed(2, 1, S).expect(&[Defect::Early]);
    failed(3, 2, 3 * S + 9 * MS).expect(&[]);
}

/// Found by a run with `endpoint-switch` (seed 41033).
#[test]
fn a_failure_that_redis_has_lost_delays_no_retry() {
    let history = NativeHistoryBuilder::new().publish(0, plain(1), PublishResult::Created);
    let failed = history.deliver(2 * MS, 1, 1).settle(
        10 * MS,
        (1, 1),
        SettleAction::FailRetryIn(S),
        retry_at(T0 + S + 11 * MS),
    );
    let first_again = came_at(failed.clone(), 400 * MS, 1);
    first_again.failover(0, 20 * MS).expect(&[]);
    let second = failed.deliver_with(400 * MS, 1, 2, |got| got.failures = Some(1));
    let second = second.ack(409 * MS, 1, 2);
    second.failover(500 * MS, 600 * MS).expect(&[Defect::Early]);
}

#[test]
fn an_attempt_that_is_delivered_again_after_a_loss_is_not_ended_before_it_begins() {
    let history = NativeHistoryBuilder::new().publish(0, plain(1), PublishResult::Created);
    // Redis loses the first delivery, and gives its attempt to a second consumer. The first one fails that.
    let twice = |history: NativeHistoryBuilder| {
        let failed_at = 20 * MS + MS / 2;
        let retry = retry_at(T0 + failed_at + S);
        let action = SettleAction::FailRetryIn(S);
        let history = history.deliver(2 * MS, 1, 1).deliver(20 * MS, 1, 1);
        history.settle(failed_at, (1, 1), action, retry)
    };
    let again = |history: NativeHistoryBuilder| {
        let at = S + 30 * MS;
        let history = history.deliver_with(at, 1, 2, |got| got.failures = Some(1));
        history.ack(at + 9 * MS, 1, 2)
    };
    again(twice(history.clone().failover(0, 10 * MS))).expect(&[]);
    again(twice(history)).expect(&[Defect::Doubled, Defect::Doubled]);
}
