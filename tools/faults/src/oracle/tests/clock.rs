//! Jobs while the clock of Redis is wrong.

use super::*;

/// The clock is wrong from 2 s to 5 s.
fn history_with_wrong_clock() -> HistoryBuilder {
    HistoryBuilder::new().episode(Class::RedisClock, span(2 * S, 5 * S), None)
}

#[test]
fn a_clock_that_is_ahead_makes_jobs_early_and_leases_short() {
    let ahead = |at: u64, tries_left| delivered(at + 30 * S, tries_left);
    let history = history_with_wrong_clock().publish(version_spec(20 * S, 0, 2));
    let history = history.deliver_as(3 * S, ahead(3 * S, 1));
    let history = history.deliver_as(3500 * MS, ahead(3500 * MS, 0));
    history.ack(4 * S, acked()).expect(&[]);
}

#[test]
fn a_clock_that_is_temporarily_wrong_excuses_no_loss() {
    let history = history_with_wrong_clock().publish(version_spec(3 * S, 0, 1));
    history.expect(&[Defect::Lost]);
    history.cancel(4 * S).expect(&[]);
}

/// Seed 1648318008: by the clock that was set forward its time to live had ended with its lease.
#[test]
fn a_job_that_was_leased_when_the_clock_moved_may_have_expired() {
    let leased = |ttl| {
        let history = history_with_wrong_clock().publish(version_spec(S, ttl, 2));
        history.deliver(1900 * MS, 1)
    };
    leased(14 * S).expect(&[]);
    leased(0).expect(&[Defect::Lost]);
}

/// The lease of its last delivery ended when the clock was set forward.
#[test]
fn a_job_that_was_leased_when_the_clock_moved_may_have_been_purged() {
    let purged = |history: HistoryBuilder| {
        let history = history
            .publish(version_spec(1800 * MS, 0, 2))
            .deliver(1900 * MS, 1);
        let purge = ClientRequest::PurgeReady { queue: 3 };
        history.request(3 * S, purge, RequestOutcome::Deleted)
    };
    purged(history_with_wrong_clock()).expect(&[]);
    purged(HistoryBuilder::new()).expect(&[Defect::Lost]);
}

#[test]
fn a_job_from_before_is_not_late_once_the_clock_is_right_again() {
    let came = |at| {
        let history = history_with_wrong_clock()
            .publish(version_spec(3 * S, 0, 1))
            .deliver(at, 0);
        history.ack(at + 5 * MS, acked())
    };
    came(5900 * MS).expect(&[]);
    came(6200 * MS).expect(&[Defect::Late]);
}

/// A consumer that hung up used its only attempt; then it was respawned.
#[test]
fn a_respawned_job_is_available_since_its_respawn() {
    let history = history_with_wrong_clock().publish(version_spec(0, 0, 1));
    let history = history.consume(span(0, 10 * MS), no_job()).respawn(8 * S);
    let history = history.deliver(8 * S + 2 * MS, 0);
    history.ack(9 * S, acked()).expect(&[]);
}

#[test]
fn a_job_outside_of_the_clock_fault_is_judged_by_all_rules() {
    let history = HistoryBuilder::new().episode(Class::RedisClock, span(50 * S, 55 * S), None);
    let history = history.publish(version_spec(3 * S, 0, 1)).deliver(2 * S, 0);
    history.ack(3 * S, acked()).expect(&[Defect::Early]);
}

#[test]
fn an_answer_with_an_earlier_lease_may_be_read_later() {
    let history = history_with_wrong_clock().publish(version_spec(2400 * MS, 0, 2));
    let history = history.deliver(4 * S, 0);
    let earlier = RequestOutcome::Delivered(vec![delivered(2500 * MS, 1)]);
    let history = history.consume(span(2 * S, 4500 * MS), earlier);
    history.ack(5 * S, acked()).expect(&[]);
}

/// The time in its id is ahead of the corrected clock, so the times in its answer are not used.
#[test]
fn a_job_that_was_published_with_a_clock_ahead_is_delivered_before_its_ack() {
    let version_spec = version_spec(0, 0, 2);
    let publish = publish_of(&[version_spec]);
    let history = history_with_wrong_clock().request(3 * S, publish, stored(&[1]));
    let got = delivery_of(1, 18 * S, 18 * S, 1);
    let history = history.deliver_as(7 * S, got);
    history.ack(8 * S, acked()).expect(&[]);
}
