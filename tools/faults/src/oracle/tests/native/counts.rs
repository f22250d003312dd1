//! Failures and losses.

use super::*;

fn limited(number: u64, attempts: u64) -> VersionSpec {
    let mut version = plain(number);
    version.tries = attempts;
    version
}

#[test]
fn only_reported_failures_count() {
    let second = |action, outcome, failures| {
        let history = NativeHistoryBuilder::new().publish(0, limited(1, 3), PublishResult::Created);
        let history = history
            .deliver(2 * MS, 1, 1)
            .settle_with(9 * MS, (1, 1), action, outcome);
        let history = history.deliver_with(3 * S, 1, 2, |got| got.failures = Some(failures));
        history.ack(3 * S + 9 * MS, 1, 2)
    };
    let retry = RequestOutcome::Settled(vec![retry_at(T0 + 2 * S + 10 * MS)]);
    let fail = SettleAction::FailRetryIn(2 * S);
    second(fail, retry.clone(), 1).expect(&[]);
    second(fail, retry.clone(), 2).expect(&[Defect::DiedEarly]);
    second(fail, retry, 0).expect(&[Defect::Doubled]);
    second(fail, no_job(), 0).expect(&[]);
    second(fail, no_job(), 1).expect(&[]);
    // A lost worker costs no attempt.
    second(fail, RequestOutcome::NotSent, 0).expect(&[]);
    second(fail, RequestOutcome::NotSent, 1).expect(&[Defect::DiedEarly]);
}

#[test]
fn the_lmstfy_wire_shows_the_failures_as_tries() {
    let second = |tries_left| {
        let history = NativeHistoryBuilder::new().publish(0, limited(1, 3), PublishResult::Created);
        let history = history.deliver(2 * MS, 1, 1);
        let history = history.deliver_to_lmstfy(3 * S, 1, tries_left);
        history.ack_on_lmstfy(3 * S + 9 * MS)
    };
    second(3).expect(&[]);
    second(2).expect(&[Defect::DiedEarly]);
}

#[test]
fn a_job_is_dead_after_its_last_failure() {
    let failed = |attempts, action, result| {
        let history =
            NativeHistoryBuilder::new().publish(0, limited(1, attempts), PublishResult::Created);
        let history = history
            .deliver(2 * MS, 1, 1)
            .settle(9 * MS, (1, 1), action, result);
        history.cancel(S, IfRunning::Refuse, CancelEffect::Deleted(JobState::Dead))
    };
    let retry = retry_at(T0 + S + 10 * MS);
    let fail = SettleAction::FailRetryIn(S);
    failed(1, fail, Outcome::Dead).expect(&[]);
    failed(1, fail, retry).expect(&[Defect::Doubled]);
    failed(2, fail, retry).expect(&[]);
    failed(2, fail, Outcome::Dead).expect(&[Defect::DiedEarly]);
    failed(2, SettleAction::FailDead, Outcome::Dead).expect(&[]);
    // The default policy allows ten.
    failed(0, fail, Outcome::Dead).expect(&[Defect::DiedEarly]);
}

/// A failover brings back the job as it was before its first delivery, and its attempts are counted again.
#[test]
fn a_failure_is_that_of_an_attempt_which_redis_may_have_lost() {
    let fail = |history: NativeHistoryBuilder, at, attempt| {
        let retry = retry_at(T0 + at + MS + 5 * MS);
        history.settle(at, (1, attempt), SettleAction::FailRetryIn(5 * MS), retry)
    };
    let begin = NativeHistoryBuilder::new().publish(0, limited(1, 2), PublishResult::Created);
    let lost = begin.deliver(2 * MS, 1, 2);
    let lost = fail(lost, 10 * MS, 2);
    let again = fail(lost.deliver(S, 1, 1), S + 9 * MS, 1);
    let again = again.deliver_with(2 * S, 1, 2, |got| got.failures = Some(1));
    let again = again.ack(2 * S + 9 * MS, 1, 2);
    again.clone().failover(0, S + 5 * MS).expect(&[]);
    // Without a failover the order of the attempts, the count of failures, and the second end are defects.
    again.expect(&[Defect::Doubled; 5]);
}

#[test]
fn a_job_is_dead_after_five_lost_workers() {
    let lost = |times: u32| {
        let mut history = NativeHistoryBuilder::new().publish(0, plain(1), PublishResult::Created);
        for attempt in 1..=times {
            let at = u64::from(attempt - 1) * (LEASE + 10 * MS) + 2 * MS;
            history = history.deliver(at, 1, attempt);
        }
        let at = u64::from(times) * (LEASE + 10 * MS) + 2 * MS;
        history
            .deliver(at, 1, times + 1)
            .ack(at + 9 * MS, 1, times + 1)
    };
    lost(4).expect(&[]);
    lost(5).expect(&[Defect::AfterItsEnd]);
    // A respawn begins again.
    lost(5).respawn(3 * LEASE).expect(&[]);
}

#[test]
fn a_job_does_not_die_of_fewer_losses() {
    let dead = |losses, deliveries: u32| {
        let mut history = NativeHistoryBuilder::new().publish(0, plain(1), PublishResult::Created);
        for attempt in 1..=deliveries {
            let at = u64::from(attempt - 1) * (LEASE + 10 * MS) + 2 * MS;
            history = history.deliver(at, 1, attempt);
        }
        let history = history.show(30 * S, |shown| {
            shown.state = JobState::Dead;
            shown.losses = losses;
            shown.died_of_losses = true;
        });
        history.cancel(
            31 * S,
            IfRunning::Refuse,
            CancelEffect::Deleted(JobState::Dead),
        )
    };
    dead(5, 5).expect(&[]);
    dead(4, 5).expect(&[Defect::DiedEarly]);
    dead(5, 4).expect(&[Defect::DiedEarly]);
}
