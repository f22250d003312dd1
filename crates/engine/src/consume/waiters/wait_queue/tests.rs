//! Tests of the wait queue of a source.

mod held;
mod interleavings;
mod lane_turns;
mod left_seats;
mod registered;

use bytes::Bytes;
use tidegate_core::{Job, JobId, JobState};

use super::super::seat::SeatOutcome;
use super::*;
use tidegate_store::LeaseLength;

struct TestQueue {
    wait_queue: WaitQueue,
    seats: Vec<Arc<Seat>>,
    jobs: u64,
    /// Whether rounds register the process.
    registers: bool,
    /// The time of the last round of [`Self::next_round`].
    now: Instant,
}

impl TestQueue {
    fn new() -> Self {
        Self {
            wait_queue: WaitQueue::default(),
            seats: vec![],
            jobs: 0,
            registers: false,
            now: Instant::now(),
        }
    }

    /// Adds a seat with a claim of `count` jobs.
    fn enter(&mut self, count: u16) -> bool {
        let claim = Claim::new(count, u64::from(count));
        let seat = Arc::new(Seat::new(claim, true));
        self.seats.push(Arc::clone(&seat));
        self.wait_queue
            .enter(self.seats.len() as u64 - 1, seat, false)
    }

    /// The next round, at a time when the turn of the last lane is over.
    fn next_round(&mut self, lanes: u16) -> Option<Round> {
        self.now += lane_turn::TURN;
        self.wait_queue.next_round(lanes, self.now)
    }

    fn counts(round: &Round) -> Vec<u16> {
        round.claims.iter().map(|claim| claim.count).collect()
    }

    /// Ends a round with `jobs` jobs for each claim. Returns how many no seat took.
    fn hand_out(&mut self, round: Round, jobs: &[usize]) -> usize {
        let jobs = jobs.iter().map(|count| self.jobs(*count)).collect();
        let source = Source::new("default", "ns/q");
        let reserved = ReservedJobs {
            is_registered: self.registers,
            now_ms: 1,
            jobs,
        };
        let waiting = |seats: &[Arc<Seat>]| seats.iter().filter(|seat| seat.is_waiting()).count();
        let before = waiting(&self.seats);
        let Deliveries { served, surplus } = self.wait_queue.deliver(&source, round, reserved);
        assert_eq!(served.len(), before - waiting(&self.seats));
        surplus
            .iter()
            .map(|reservation| reservation.jobs.len())
            .sum()
    }

    fn jobs(&mut self, count: usize) -> Vec<Job> {
        let job = |number| Job {
            id: JobId::new(1, 1, number, 1),
            body: Bytes::new(),
            attributes: vec![],
            mark: false,
            extension: None,
            priority: 0,
            failures: None,
            cancel_requested: false,
            has_history: false,
            state: JobState::Leased,
            tries_left: 0,
            attempt: 1,
            created_at_ms: 1,
            due_at_ms: 1,
            run_at_ms: 1,
            expires_at_ms: 0,
        };
        let first = self.jobs;
        self.jobs += count as u64;
        (first..self.jobs).map(job).collect()
    }

    /// The numbers of the jobs at a seat; `None` if it waits and has not had its first round.
    fn at_seat(&self, seat: usize) -> Option<Vec<u64>> {
        match self.seats[seat].try_take(&[seat as u64])? {
            SeatOutcome::Jobs(reservation) => {
                Some(reservation.jobs.iter().map(|job| job.id.number()).collect())
            }
            SeatOutcome::NothingYet => Some(vec![]),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn jobs_go_to_seats_in_order_of_arrival() {
    let mut tested = TestQueue::new();
    assert!(tested.enter(1), "the first seat starts the loop");
    assert!(!tested.enter(2));
    tested.enter(1);
    let round = tested.next_round(1).unwrap();
    assert_eq!(TestQueue::counts(&round), [1, 2, 1]);
    assert_eq!(tested.hand_out(round, &[1, 2, 0]), 0);
    assert_eq!(tested.at_seat(0), Some(vec![0]));
    assert_eq!(tested.at_seat(1), Some(vec![1, 2]));
    assert_eq!(tested.at_seat(2), Some(vec![]));
    assert!(tested.next_round(1).is_none());
    assert!(!tested.wait_queue.is_idle(), "one still waits");
    tested.wait_queue.leave(2);
    assert!(tested.wait_queue.is_idle());
}

#[test]
fn a_seat_that_arrives_during_a_call_is_served_by_the_next_call() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    let round = tested.next_round(1).unwrap();
    tested.enter(1);
    tested.hand_out(round, &[0]);
    assert_eq!(tested.at_seat(0), Some(vec![]));
    assert_eq!(tested.at_seat(1), None, "its round has not begun");
    let round = tested.next_round(1).unwrap();
    assert_eq!(
        round.claims.len(),
        2,
        "the seat that arrived first still waits"
    );
    tested.hand_out(round, &[0, 0]);
    assert_eq!(tested.at_seat(1), Some(vec![]));
    assert!(tested.next_round(1).is_none());
}

#[test]
fn a_ring_during_a_call_causes_another_call() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    let round = tested.next_round(1).unwrap();
    assert!(!tested.wait_queue.ring(None), "the loop is running");
    tested.hand_out(round, &[0]);
    let round = tested.next_round(1).unwrap();
    tested.hand_out(round, &[0]);
    assert!(tested.next_round(1).is_none());
    assert!(tested.wait_queue.ring(None), "the loop has ended");
    assert!(tested.next_round(1).is_some());
}

#[test]
fn a_round_takes_claims_in_order_while_they_fit() {
    let mut tested = TestQueue::new();
    for count in [100, 5, 1, 11, 3, 1] {
        tested.enter(count);
    }
    let round = tested.next_round(1).unwrap();
    assert_eq!(TestQueue::counts(&round), [100], "never reduced");
    tested.hand_out(round, &[100]);
    let round = tested.next_round(1).unwrap();
    assert_eq!(TestQueue::counts(&round), [5, 1], "11 more are above 16");
    tested.hand_out(round, &[5, 1]);
    let round = tested.next_round(1).unwrap();
    assert_eq!(TestQueue::counts(&round), [11, 3, 1]);
    tested.hand_out(round, &[11, 2, 0]);
    assert_eq!(tested.at_seat(4).map(|jobs| jobs.len()), Some(2));
    assert_eq!(tested.at_seat(5), Some(vec![]), "no job was left");
    assert!(tested.next_round(1).is_none());
}

#[test]
fn jobs_for_a_seat_that_was_left_are_surplus() {
    let mut tested = TestQueue::new();
    tested.enter(2);
    tested.enter(1);
    let round = tested.next_round(1).unwrap();
    tested.wait_queue.leave(0);
    assert_eq!(tested.seats[0].leave(), None);
    assert_eq!(tested.hand_out(round, &[2, 1]), 2);
    assert_eq!(tested.at_seat(1), Some(vec![2]));
}

#[test]
fn a_seat_that_was_served_by_another_source_claims_no_more_jobs() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    tested.enter(1);
    let elsewhere = Reservation {
        source: Source::new("default", "ns/other"),
        ticket: 1,
        jobs: vec![],
        lease: LeaseLength::Ms(1000),
        now_ms: 1,
    };
    assert_eq!(tested.seats[0].deliver(elsewhere), Ok(()));
    let round = tested.next_round(1).unwrap();
    assert_eq!(round.claims.len(), 1);
    tested.hand_out(round, &[1]);
    assert_eq!(tested.at_seat(1), Some(vec![0]));
}

#[test]
fn a_call_claims_twice_as_many_jobs_after_a_full_one() {
    let mut tested = TestQueue::new();
    for _ in 0..400 {
        tested.enter(1);
    }
    for reach in [8, 16, 32, 64, 100, 100] {
        let round = tested.next_round(1).unwrap();
        assert_eq!(round.claims.len(), reach);
        tested.hand_out(round, &vec![1; reach]);
    }
    let round = tested.next_round(1).unwrap();
    assert_eq!(round.claims.len(), 80);
    tested.hand_out(round, &[0; 80]);
    assert!(tested.next_round(1).is_none());
    tested.wait_queue.ring(None);
    assert_eq!(tested.next_round(1).unwrap().claims.len(), 8);
}

/// One doorbell rings for a burst of jobs, after a call that found no job for these consumers.
#[test]
fn parked_consumers_beyond_the_first_call_get_the_rest_of_a_burst() {
    let mut tested = TestQueue::new();
    for _ in 0..12 {
        tested.enter(1);
    }
    let round = tested.next_round(1).unwrap();
    tested.hand_out(round, &[0; 8]);
    assert!(tested.next_round(1).is_none());
    tested.wait_queue.ring(None);
    let round = tested.next_round(1).unwrap();
    tested.hand_out(round, &[1; 8]);
    let round = tested.next_round(1).unwrap();
    assert_eq!(round.claims.len(), 4);
}

#[test]
fn a_call_without_jobs_counts_for_all_waiting_seats() {
    let mut tested = TestQueue::new();
    for _ in 0..50 {
        tested.enter(1);
    }
    let round = tested.next_round(1).unwrap();
    assert_eq!(round.claims.len(), 8);
    tested.hand_out(round, &[0; 8]);
    assert_eq!(tested.at_seat(49), Some(vec![]));
    assert!(tested.next_round(1).is_none());
}

#[test]
fn a_failed_call_ends_the_first_round_of_all_seats_and_no_wait() {
    let mut tested = TestQueue::new();
    for _ in 0..150 {
        tested.enter(1);
    }
    let round = tested.next_round(1).unwrap();
    assert_eq!(round.claims.len(), 8);
    tested.enter(1);
    tested.wait_queue.fail(&round);
    for seat in [0, 99, 149] {
        assert_eq!(tested.at_seat(seat), Some(vec![]));
        assert!(tested.seats[seat].has_failed_round());
    }
    assert_eq!(tested.at_seat(150), None, "it arrived after the call began");
    let round = tested.next_round(1).unwrap();
    assert_eq!(round.claims.len(), 8, "all keep their seats");
    tested.hand_out(round, &[1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(tested.at_seat(0), Some(vec![0]));
    assert_eq!(tested.at_seat(150), Some(vec![]));
    assert!(!tested.seats[150].has_failed_round());
}

#[test]
fn a_failed_lane_is_checked_again_by_a_retry_and_not_by_a_poll() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    let failed = tested.next_round(2).unwrap();
    tested.wait_queue.fail(&failed);
    assert!(tested.wait_queue.has_failed(failed.lane));
    let other = 1 - failed.lane;
    assert_eq!(lanes_checked(&mut tested, 2), [other]);
    assert!(tested.wait_queue.is_answered());
    assert!(
        tested
            .wait_queue
            .polled_lanes()
            .map(|(lane, _)| lane)
            .eq([other])
    );

    assert!(tested.wait_queue.needs_retry());
    assert!(tested.wait_queue.retry());
    assert!(!tested.wait_queue.needs_retry(), "it is being retried");
    let round = tested.next_round(2).unwrap();
    assert_eq!(round.lane, failed.lane);
    assert!(!tested.wait_queue.needs_retry());
    tested.wait_queue.fail(&round);
    assert!(tested.wait_queue.needs_retry());
    assert!(tested.next_round(2).is_none());

    assert!(tested.wait_queue.retry());
    assert_eq!(lanes_checked(&mut tested, 2), [failed.lane]);
    assert!(!tested.wait_queue.needs_retry());
    assert!(!tested.wait_queue.has_failed(failed.lane));
    assert!(!tested.wait_queue.retry(), "there is nothing to retry");
    assert!(
        tested
            .wait_queue
            .polled_lanes()
            .map(|(lane, _)| lane)
            .eq([0, 1])
    );
}

#[test]
fn a_queue_counts_as_unanswered_while_the_last_call_for_each_lane_failed() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    assert!(!tested.wait_queue.is_answered());
    let round = tested.next_round(1).unwrap();
    tested.hand_out(round, &[0]);
    assert!(tested.wait_queue.is_answered());
    tested.wait_queue.ring(None);
    let round = tested.next_round(1).unwrap();
    tested.wait_queue.fail(&round);
    assert!(!tested.wait_queue.is_answered());
    tested.wait_queue.retry();
    let round = tested.next_round(1).unwrap();
    tested.hand_out(round, &[0]);
    assert!(tested.wait_queue.is_answered());
}

#[test]
fn a_failed_wait_queue_without_seats_is_not_retried() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    let round = tested.next_round(1).unwrap();
    tested.wait_queue.fail(&round);
    assert!(tested.next_round(1).is_none());
    assert!(tested.wait_queue.needs_retry());
    tested.wait_queue.leave(0);
    assert!(!tested.wait_queue.needs_retry());
    assert!(tested.wait_queue.is_idle());
}

#[test]
fn an_empty_wait_queue_ends_its_loop() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    tested.wait_queue.leave(0);
    assert!(!tested.wait_queue.is_idle(), "the loop was started");
    assert!(tested.next_round(1).is_none());
    assert!(tested.wait_queue.is_idle());
}

/// The lanes that rounds check, one after the other, without finding a job.
fn lanes_checked(tested: &mut TestQueue, lanes: u16) -> Vec<u16> {
    let mut tried = Vec::new();
    while let Some(round) = tested.next_round(lanes) {
        tried.push(round.lane);
        let nothing = vec![0; round.claims.len()];
        tested.hand_out(round, &nothing);
    }
    tried
}

#[test]
fn a_seat_has_had_its_round_when_all_lanes_were_checked() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    let round = tested.next_round(4).unwrap();
    tested.hand_out(round, &[0]);
    assert_eq!(tested.at_seat(0), None);
    tested.enter(1);
    let mut tried = lanes_checked(&mut tested, 4);
    assert_eq!(tried.len(), 4, "the first lane again, for the second seat");
    tried.sort_unstable();
    assert_eq!(tried, [0, 1, 2, 3]);
    assert_eq!(tested.at_seat(0), Some(vec![]));
    assert_eq!(tested.at_seat(1), Some(vec![]));
}

#[test]
fn a_ring_of_a_lane_causes_a_check_of_that_lane_only() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    lanes_checked(&mut tested, 4);
    assert!(tested.wait_queue.ring(Some(2)));
    assert_eq!(lanes_checked(&mut tested, 4), [2]);
    assert!(tested.wait_queue.ring(None));
    assert_eq!(lanes_checked(&mut tested, 4).len(), 4);
    assert!(
        tested.wait_queue.ring(Some(4)),
        "no round has checked this lane yet"
    );
    assert_eq!(lanes_checked(&mut tested, 5), [4]);
    assert!(tested.wait_queue.ring(None));
    assert_eq!(lanes_checked(&mut tested, 1), [0], "the others are gone");
}

#[test]
fn other_lanes_are_checked_while_a_lane_takes_long() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    let slow = tested.next_round(3).unwrap();
    let tried = lanes_checked(&mut tested, 3);
    assert_eq!(tried.len(), 2);
    assert!(!tried.contains(&slow.lane));
    assert_eq!(tested.at_seat(0), None, "one lane has not answered");
    tested.wait_queue.leave(0);
    assert!(!tested.wait_queue.is_idle(), "a round is in flight");
    tested.hand_out(slow, &[0]);
    assert!(tested.wait_queue.is_idle());
}

#[test]
fn a_lane_that_fails_is_reported_when_the_others_have_no_job() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    tested.enter(1);
    let round = tested.next_round(3).unwrap();
    tested.wait_queue.fail(&round);
    assert_eq!(tested.seats[0].try_take(&[0]), None);
    let round = tested.next_round(3).unwrap();
    tested.hand_out(round, &[1, 0]);
    assert_eq!(tested.at_seat(0), Some(vec![0]));
    assert_eq!(tested.seats[1].try_take(&[1]), None);
    lanes_checked(&mut tested, 3);
    assert_eq!(tested.at_seat(1), Some(vec![]));
    assert!(tested.seats[1].has_failed_round());
    assert!(tested.wait_queue.is_answered());
    assert!(!tested.wait_queue.has_failed_everywhere());
}

/// So the order of queues holds for the lanes that answer.
#[test]
fn a_lane_that_has_failed_is_not_waited_for_beside_others() {
    let mut tested = TestQueue::new();
    tested.enter(1);
    let failed = tested.next_round(2).unwrap();
    tested.wait_queue.fail(&failed);
    lanes_checked(&mut tested, 2);
    tested.enter(1);
    let first = tested.next_round(2).unwrap();
    let second = tested.next_round(2).unwrap();
    let (failing, other) = match first.lane == failed.lane {
        true => (first, second),
        false => (second, first),
    };
    tested.hand_out(other, &[0, 0]);
    assert_eq!(tested.at_seat(1), Some(vec![]));
    assert!(tested.seats[1].has_failed_round(), "one lane is unknown");
    tested.wait_queue.fail(&failing);
}
