//! Jobs while the clock of Redis is wrong.

use super::*;

/// The clock is wrong from 2 s to 5 s.
fn tale() -> Tale {
    Tale::new().episode(Class::RedisClock, span(2 * S, 5 * S), None)
}

#[test]
fn a_clock_that_is_ahead_makes_jobs_early_and_leases_short() {
    let ahead = |at: u64, tries_left| delivered(at + 30 * S, tries_left);
    let tale = tale().publish(terms(20 * S, 0, 2));
    let tale = tale.deliver_as(3 * S, ahead(3 * S, 1));
    let tale = tale.deliver_as(3500 * MS, ahead(3500 * MS, 0));
    tale.ack(4 * S, Outcome::Deleted).expect(&[]);
}

#[test]
fn a_clock_that_is_wrong_for_a_while_loses_no_job() {
    let tale = tale().publish(terms(3 * S, 0, 1));
    tale.expect(&[Defect::Lost]);
    tale.cancel(4 * S).expect(&[]);
}

#[test]
fn a_job_from_before_is_not_late_once_the_clock_is_right_again() {
    let came = |at| {
        let tale = tale().publish(terms(3 * S, 0, 1)).deliver(at, 0);
        tale.ack(at + 5 * MS, Outcome::Deleted)
    };
    came(5900 * MS).expect(&[]);
    came(6200 * MS).expect(&[Defect::Late]);
}

/// A consumer that hung up used its only attempt; then it was respawned.
#[test]
fn a_job_that_died_and_was_respawned_comes_when_it_was_respawned() {
    let tale = tale().publish(terms(0, 0, 1));
    let tale = tale.consume(span(0, 10 * MS), left()).respawn(8 * S);
    let tale = tale.deliver(8 * S + 2 * MS, 0);
    tale.ack(9 * S, Outcome::Deleted).expect(&[]);
}

#[test]
fn a_job_from_another_time_is_judged_by_all_rules() {
    let tale = Tale::new().episode(Class::RedisClock, span(50 * S, 55 * S), None);
    let tale = tale.publish(terms(3 * S, 0, 1)).deliver(2 * S, 0);
    tale.ack(3 * S, Outcome::Deleted).expect(&[Defect::Early]);
}

#[test]
fn an_answer_with_an_earlier_lease_may_be_read_later() {
    let tale = tale().publish(terms(2400 * MS, 0, 2));
    let tale = tale.deliver(4 * S, 0);
    let earlier = Outcome::Delivered(vec![delivered(2500 * MS, 1)]);
    let tale = tale.consume(span(2 * S, 4500 * MS), earlier);
    tale.ack(5 * S, Outcome::Deleted).expect(&[]);
}

/// The time in its id is ahead of the clock that is right again, so its answer shows no time at all.
#[test]
fn a_job_that_was_published_with_a_clock_ahead_comes_before_its_ack() {
    let terms = terms(0, 0, 2);
    let published = Outcome::Published(vec!["id".to_owned()]);
    let publish = Request::Publish {
        queue: 3,
        jobs: vec![terms],
    };
    let tale = tale().operation(span(3 * S, 3 * S + MS), publish, published);
    let got = Delivered {
        created: T0 + 18 * S,
        elapsed: 0,
        ..delivered(7 * S, 1)
    };
    let tale = tale.deliver_as(7 * S, got);
    tale.ack(8 * S, Outcome::Deleted).expect(&[]);
}
