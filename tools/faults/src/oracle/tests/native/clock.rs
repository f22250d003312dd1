//! Native jobs while the clock of Redis is wrong.

use super::*;

/// How far the clock is ahead from 2 s to 5 s.
const AHEAD: u64 = 15 * S;

fn history_with_wrong_clock() -> NativeHistoryBuilder {
    let mut history = NativeHistoryBuilder::new();
    let wrong = span(2 * S, 5 * S);
    history.builder = history.builder.episode(Class::RedisClock, wrong, None);
    history
}

/// A version that was published while the clock was ahead. A consumer of the lmstfy wire gets it at 7 s, with a
/// creation time in the future, so that its lease seems to begin at 18 s.
fn published_ahead(history: NativeHistoryBuilder, version: &VersionSpec) -> NativeHistoryBuilder {
    let result = VersionResult::Job {
        id: history.id.to_owned(),
        outcome: PublishResult::Created,
        state: JobState::Ready,
        run_at: Some(T0 + 3 * S + AHEAD),
        is_replayed: false,
    };
    let number = version.number;
    let history = history.publish_result(3 * S, version.clone(), result);
    history.deliver_to_lmstfy_with(7 * S, number, 10, |got| {
        got.created = Some(T0 + 3 * S + AHEAD);
        got.reserved = T0 + 3 * S + AHEAD;
        got.lease_until = got.reserved + TTR;
    })
}

/// A worker gets version 1 while the clock is ahead.
fn delivered_ahead(history: NativeHistoryBuilder, at: u64, attempt: u32) -> NativeHistoryBuilder {
    history.deliver_with(at, 1, attempt, |got| {
        got.reserved += AHEAD;
        got.lease_until += AHEAD;
    })
}

/// A cancel that may have ended the job after all that was observed.
fn cancelled_last(history: NativeHistoryBuilder) -> NativeHistoryBuilder {
    history.cancel_with(20 * S, IfRunning::Refuse, no_job())
}

#[test]
fn a_lease_of_a_job_that_was_created_with_a_clock_ahead_began_in_its_request() {
    let came = |history| cancelled_last(published_ahead(history, &plain(1)));
    came(history_with_wrong_clock()).expect(&[]);
    came(NativeHistoryBuilder::new()).expect(&[Defect::Foreign]);
    // The clock is wrong only later.
    let mut later = NativeHistoryBuilder::new();
    let wrong = span(30 * S, 35 * S);
    later.builder = later.builder.episode(Class::RedisClock, wrong, None);
    came(later).expect(&[Defect::Foreign]);
}

#[test]
fn a_job_that_was_created_with_a_clock_ahead_comes_before_its_ack() {
    let acked = |history, at| cancelled_last(published_ahead(history, &plain(1)).ack_on_lmstfy(at));
    acked(history_with_wrong_clock(), 7 * S + 9 * MS).expect(&[]);
    // It came after its ack.
    acked(history_with_wrong_clock(), 6 * S).expect(&[Defect::AfterItsEnd]);
}

#[test]
fn a_job_that_was_created_with_a_clock_ahead_may_be_ended_by_its_ack() {
    let keyed = keyed(1, IfExists::Keep);
    let came = published_ahead(history_with_wrong_clock(), &keyed);
    came.expect(&[Defect::Lost]);
    came.ack_on_lmstfy(7 * S + 9 * MS).expect(&[]);
}

#[test]
fn a_failure_counts_although_the_lease_of_its_attempt_began_in_the_future() {
    let again = |result: Option<Outcome>, tries_left| {
        let mut version = plain(1);
        version.tries = 3;
        let history = history_with_wrong_clock().publish(S, version, PublishResult::Created);
        let history = delivered_ahead(history, 3 * S, 1);
        let history = match result {
            Some(result) => history.settle(3 * S + 9 * MS, (1, 1), SettleAction::Fail, result),
            None => history,
        };
        let history = history.deliver_to_lmstfy(19 * S, 1, tries_left);
        history.ack_on_lmstfy(19 * S + 9 * MS)
    };
    let retry = retry_at(T0 + 19 * S);
    again(Some(retry), 2).expect(&[]);
    again(Some(retry), 1).expect(&[Defect::DiedEarly]);
    again(Some(retry), 3).expect(&[Defect::Doubled]);
    again(None, 3).expect(&[]);
    again(None, 2).expect(&[Defect::DiedEarly]);
}

#[test]
fn lost_workers_count_although_leases_began_in_the_future() {
    let lost = |times: u32| {
        let mut history = history_with_wrong_clock().publish(S, plain(1), PublishResult::Created);
        for attempt in 1..=times {
            let at = 2 * S + u64::from(attempt) * 500 * MS;
            history = delivered_ahead(history, at, attempt);
        }
        let history = history.deliver_to_lmstfy(9 * S, 1, 10);
        let last = times + 2;
        history.deliver(12 * S, 1, last).ack(13 * S, 1, last)
    };
    // The consumer of the lmstfy wire is lost, too.
    lost(3).expect(&[]);
    lost(4).expect(&[Defect::AfterItsEnd]);
    lost(5).expect(&[Defect::AfterItsEnd, Defect::AfterItsEnd]);
}

/// The clock was ahead for a moment, and was right again when the worker settled the job.
#[test]
fn a_clock_that_was_ahead_has_ended_a_lease() {
    let mut history = NativeHistoryBuilder::new();
    let wrong = span(2 * S, 2 * S + 100 * MS);
    history.builder = history.builder.episode(Class::RedisClock, wrong, None);
    let history = history.publish(S, plain(1), PublishResult::Created);
    let refused =
        history
            .deliver(S + 900 * MS, 1, 1)
            .settle(3 * S, (1, 1), SettleAction::Ack, Outcome::Lost);
    cancelled_last(refused).expect(&[]);
}
