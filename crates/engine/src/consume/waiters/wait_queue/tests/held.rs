//! Wait queues that a rate holds back, and rounds with fewer units than claims.

use std::time::Duration;

use super::*;

const LONGEST: Duration = Duration::from_secs(60);

impl TestQueue {
    /// Holds the wait queue back until its next unit, which is due so long from now.
    fn hold(&mut self, next_unit_ms: u64, timer: u64) -> bool {
        let next_unit = Duration::from_millis(next_unit_ms);
        self.wait_queue.hold(next_unit, LONGEST, timer, self.now)
    }

    fn round_after(&mut self, ms: u64) -> Option<Round> {
        self.now += Duration::from_millis(ms);
        self.wait_queue.next_round(1, self.now)
    }

    /// A round begins, and finds no unit.
    fn find_no_units(&mut self, next_unit_ms: u64, timer: u64) -> bool {
        let round = self.round_after(0).unwrap();
        self.wait_queue.found_no_units(&round);
        self.hold(next_unit_ms, timer)
    }
}

#[test]
fn a_held_wait_queue_makes_no_round_before_its_time_and_then_one() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    assert!(tested.find_no_units(1000, 1));
    assert_eq!(tested.at_seat(0), None);
    assert!(tested.round_after(100).is_none());
    assert_eq!(
        tested.at_seat(0),
        Some(vec![]),
        "it need not wait for the unit"
    );
    assert!(tested.wait_queue.doorbell(Some(0)));
    assert!(tested.round_after(100).is_none());
    assert!(tested.enter(1), "the loop has to look");
    assert!(tested.round_after(799).is_none());
    assert_eq!(tested.at_seat(1), Some(vec![]));
    assert!(!tested.wait_queue.is_idle());

    assert!(
        tested
            .wait_queue
            .held_until(1)
            .is_some_and(|until| until > tested.now)
    );
    tested.now += Duration::from_millis(1);
    assert_eq!(tested.wait_queue.held_until(1), Some(tested.now));
    assert!(tested.wait_queue.end_hold());
    let round = tested.round_after(0).unwrap();
    assert_eq!(TestQueue::counts(&round), [1, 1]);
    tested.hand_out(round, &[1, 1]);
}

#[test]
fn one_timer_ends_a_hold_and_timers_of_earlier_holds_do_not() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    assert!(tested.find_no_units(1000, 1));
    assert!(!tested.hold(2000, 2), "the first timer waits longer");
    let until = tested.now + Duration::from_secs(2);
    assert_eq!(tested.wait_queue.held_until(1), Some(until));
    assert_eq!(tested.wait_queue.held_until(2), None);
    assert!(tested.round_after(0).is_none());
    // Another rate.
    assert!(tested.wait_queue.end_hold());
    assert!(tested.find_no_units(3_600_000, 3));
    assert_eq!(tested.wait_queue.held_until(1), None);
    assert_eq!(tested.wait_queue.held_until(3), Some(tested.now + LONGEST));
    assert!(tested.round_after(0).is_none());
    tested.wait_queue.leave(0);
    assert!(
        !tested.wait_queue.is_idle(),
        "each new consumer would ask for units"
    );
    tested.wait_queue.end_hold();
    assert!(tested.round_after(0).is_none());
    assert!(tested.wait_queue.is_idle());
    assert!(!tested.wait_queue.end_hold());
}

#[test]
fn a_check_is_not_lost_if_the_hold_ends_before_the_next_round_is_sought() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    let round = tested.round_after(0).unwrap();
    tested.hand_out(round, &[0]);
    tested.wait_queue.doorbell(Some(0));
    assert!(tested.find_no_units(5, 1));
    tested.now += Duration::from_millis(6);
    assert!(!tested.wait_queue.end_hold(), "the loop still runs");
    assert!(tested.round_after(0).is_some());
}

#[test]
fn a_lane_that_answers_without_a_unit_has_not_failed() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    let round = tested.round_after(0).unwrap();
    tested.wait_queue.fail(&round);
    assert!(tested.wait_queue.has_failed(round.lane));
    tested.wait_queue.doorbell(Some(0));
    assert!(tested.find_no_units(1000, 1));
    assert!(!tested.wait_queue.has_failed(round.lane));
}

#[test]
fn a_short_hold_takes_units_together() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    tested.find_no_units(1, 1);
    assert!(tested.round_after(4).is_none());
    assert!(tested.round_after(1).is_some());
}

#[test]
fn the_doorbell_of_a_round_without_units_is_passed_on_if_its_consumers_leave() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    let round = tested.round_after(0).unwrap();
    tested.hand_out(round, &[0]);
    tested.wait_queue.doorbell(Some(0));
    tested.find_no_units(1000, 1);
    assert!(tested.round_after(0).is_none());
    tested.wait_queue.leave(0);
    assert_eq!(tested.wait_queue.take_unserved(), [0]);
}

#[test]
fn claims_are_reduced_to_the_units_from_the_last_one_on() {
    let mut tested = TestQueue::new();
    for count in [1, 3, 2] {
        tested.enter(count);
    }
    let mut round = tested.next_round(1).unwrap();
    assert_eq!(round.wanted(), 6);
    round.reduce_to(2);
    assert_eq!(TestQueue::counts(&round), [1, 1]);
    assert!(round.waits);
    tested.hand_out(round, &[1, 1]);
    assert_eq!(tested.at_seat(0), Some(vec![0]));
    assert_eq!(tested.at_seat(1), Some(vec![1]), "fewer than it asked for");
    // There may be more jobs: the next round is for the seat that got no unit.
    let round = tested.next_round(1).unwrap();
    assert_eq!(TestQueue::counts(&round), [2]);
    tested.hand_out(round, &[0]);
    assert!(tested.next_round(1).is_none());
}
