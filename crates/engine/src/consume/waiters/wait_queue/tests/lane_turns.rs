//! Tests of the turns of lanes.

use std::time::Duration;

use super::super::lane_turn::TURN;
use super::*;

/// A queue with consumers for many rounds.
fn crowded() -> TestQueue {
    let mut tested = TestQueue::new();
    for _ in 0..1000 {
        tested.enter(1);
    }
    tested
}

impl TestQueue {
    /// Makes a round of three lanes that fills all claims. Returns its lane.
    fn full_round(&mut self, now: Instant) -> u16 {
        let round = self.wait_queue.next_round(3, now).unwrap();
        let lane = round.lane;
        let jobs = vec![1; round.claims.len()];
        self.hand_out(round, &jobs);
        lane
    }
}

/// A lane has filled all claims, and its next round is in flight.
fn second_round_of_a_turn() -> (TestQueue, Instant, Round) {
    let mut tested = crowded();
    let now = Instant::now();
    let first = tested.full_round(now);
    let round = tested.wait_queue.next_round(3, now).unwrap();
    assert_eq!(round.lane, first);
    (tested, now, round)
}

#[test]
fn lanes_with_jobs_have_turns_of_the_same_length() {
    let mut tested = crowded();
    let mut now = Instant::now();
    let first = tested.full_round(now);
    for turn in 0..6 {
        let lane = (first + turn) % 3;
        assert_eq!(tested.full_round(now), lane);
        assert_eq!(
            tested.full_round(now + TURN - Duration::from_nanos(1)),
            lane
        );
        now += TURN;
    }
}

#[test]
fn a_lane_without_further_jobs_ends_its_turn() {
    let (mut tested, now, round) = second_round_of_a_turn();
    let first = round.lane;
    let mut jobs = vec![1; round.claims.len()];
    *jobs.last_mut().unwrap() = 0;
    tested.hand_out(round, &jobs);
    // Unless another consumer comes, there is no reason to look into the lane again.
    tested.enter(1);
    assert_eq!(tested.full_round(now), (first + 1) % 3);
    assert_eq!(tested.full_round(now), (first + 1) % 3);
}

#[test]
fn a_lane_whose_call_fails_ends_its_turn() {
    let (mut tested, now, round) = second_round_of_a_turn();
    let first = round.lane;
    tested.wait_queue.fail(&round);
    tested.wait_queue.retry();
    assert_eq!(tested.full_round(now), (first + 1) % 3);
}

/// A lane that answers slowly neither keeps its turn nor ends the turn of the lane that is served meanwhile.
fn a_slow_lane_has_no_turn(jobs: usize) {
    let mut tested = crowded();
    let now = Instant::now();
    let slow = tested.wait_queue.next_round(3, now).unwrap();
    let next = tested.full_round(now);
    assert_eq!(next, (slow.lane + 1) % 3);
    let claims = slow.claims.len();
    tested.hand_out(slow, &vec![jobs; claims]);
    assert_eq!(tested.full_round(now), next);
}

#[test]
fn a_lane_with_a_round_in_flight_has_no_turn() {
    a_slow_lane_has_no_turn(0);
    a_slow_lane_has_no_turn(1);
}

/// Few consumers that come one after the other are served from all lanes, however fast they are.
#[test]
fn a_turn_ends_when_no_consumer_waits() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    let now = Instant::now();
    let first = tested.full_round(now);
    assert!(tested.wait_queue.next_round(3, now).is_none());
    tested.enter(1);
    assert_eq!(tested.full_round(now), (first + 1) % 3);
}
