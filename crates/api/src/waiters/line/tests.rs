//! What a line does, without time and storage.

mod left_seats;

use bytes::Bytes;
use tidegate_core::{JobId, State};

use super::super::seat::News;
use super::*;

struct Tested {
    line: Line,
    seats: Vec<Arc<Seat>>,
    jobs: u64,
}

impl Tested {
    fn new() -> Self {
        Self {
            line: Line::default(),
            seats: vec![],
            jobs: 0,
        }
    }

    /// Enters with a claim of that many jobs.
    fn enter(&mut self, count: u16) -> bool {
        let claim = Claim {
            count,
            ttr_ms: u64::from(count),
        };
        let seat = Arc::new(Seat::new(claim));
        self.seats.push(Arc::clone(&seat));
        self.line.enter(self.seats.len() as u64 - 1, seat)
    }

    fn counts(round: &Round) -> Vec<u16> {
        round.claims.iter().map(|claim| claim.count).collect()
    }

    /// Ends a round with that many jobs for each claim; answers how many were not taken.
    fn hand_out(&mut self, round: Round, jobs: &[usize]) -> usize {
        let jobs = jobs.iter().map(|count| self.jobs(*count)).collect();
        let source = Source::new("default", "ns/q");
        let surplus = self.line.hand_out(&source, round, jobs, 1);
        surplus.iter().map(|haul| haul.jobs.len()).sum()
    }

    fn jobs(&mut self, count: usize) -> Vec<Job> {
        let job = |number| Job {
            id: JobId::new(1, 1, number, 1),
            body: Bytes::new(),
            attributes: vec![],
            versioned_id: false,
            state: State::Leased,
            tries_left: 0,
            attempt: 1,
            created_at_ms: 1,
            due_at_ms: 1,
            expires_at_ms: 0,
        };
        let first = self.jobs;
        self.jobs += count as u64;
        (first..self.jobs).map(job).collect()
    }

    /// The numbers of the jobs at a seat; `None` if it still waits and had no round.
    fn at_seat(&self, seat: usize) -> Option<Vec<u64>> {
        match self.seats[seat].look(&[seat as u64])? {
            News::Jobs(haul) => Some(haul.jobs.iter().map(|job| job.id.number()).collect()),
            News::NothingYet => Some(vec![]),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn jobs_go_to_seats_in_order_of_arrival() {
    let mut tested = Tested::new();
    assert!(tested.enter(1), "the first starts the loop");
    assert!(!tested.enter(2));
    tested.enter(1);
    let round = tested.line.next_round(1).unwrap();
    assert_eq!(Tested::counts(&round), [1, 2, 1]);
    assert_eq!(tested.hand_out(round, &[1, 2, 0]), 0);
    assert_eq!(tested.at_seat(0), Some(vec![0]));
    assert_eq!(tested.at_seat(1), Some(vec![1, 2]));
    assert_eq!(tested.at_seat(2), Some(vec![]));
    assert!(tested.line.next_round(1).is_none());
    assert!(!tested.line.is_over(), "one still waits");
    tested.line.leave(2);
    assert!(tested.line.is_over());
}

#[test]
fn who_arrives_during_a_call_gets_a_call_of_his_own() {
    let mut tested = Tested::new();
    tested.enter(1);
    let round = tested.line.next_round(1).unwrap();
    tested.enter(1);
    tested.hand_out(round, &[0]);
    assert_eq!(tested.at_seat(0), Some(vec![]));
    assert_eq!(tested.at_seat(1), None, "his round has not begun");
    let round = tested.line.next_round(1).unwrap();
    assert_eq!(
        round.claims.len(),
        2,
        "the one who waits is still before him"
    );
    tested.hand_out(round, &[0, 0]);
    assert_eq!(tested.at_seat(1), Some(vec![]));
    assert!(tested.line.next_round(1).is_none());
}

#[test]
fn a_ring_during_a_call_means_again() {
    let mut tested = Tested::new();
    tested.enter(1);
    let round = tested.line.next_round(1).unwrap();
    assert!(!tested.line.ring(None), "the loop is at work already");
    tested.hand_out(round, &[0]);
    let round = tested.line.next_round(1).unwrap();
    tested.hand_out(round, &[0]);
    assert!(tested.line.next_round(1).is_none());
    assert!(tested.line.ring(None), "the loop has ended");
    assert!(tested.line.next_round(1).is_some());
}

#[test]
fn a_round_takes_what_fits_and_nobody_overtakes_the_next() {
    let mut tested = Tested::new();
    for count in [100, 5, 1, 11, 3, 1] {
        tested.enter(count);
    }
    let round = tested.line.next_round(1).unwrap();
    assert_eq!(Tested::counts(&round), [100], "never cut short");
    tested.hand_out(round, &[100]);
    let round = tested.line.next_round(1).unwrap();
    assert_eq!(Tested::counts(&round), [5, 1], "11 more are above 16");
    tested.hand_out(round, &[5, 1]);
    let round = tested.line.next_round(1).unwrap();
    assert_eq!(Tested::counts(&round), [11, 3, 1]);
    tested.hand_out(round, &[11, 2, 0]);
    assert_eq!(tested.at_seat(4).map(|jobs| jobs.len()), Some(2));
    assert_eq!(tested.at_seat(5), Some(vec![]), "nothing was left");
    assert!(tested.line.next_round(1).is_none());
}

#[test]
fn jobs_for_a_seat_that_was_left_are_surplus() {
    let mut tested = Tested::new();
    tested.enter(2);
    tested.enter(1);
    let round = tested.line.next_round(1).unwrap();
    tested.line.leave(0);
    assert_eq!(tested.seats[0].leave(), None);
    assert_eq!(tested.hand_out(round, &[2, 1]), 2);
    assert_eq!(tested.at_seat(1), Some(vec![2]));
}

#[test]
fn a_seat_that_was_served_elsewhere_claims_nothing_more() {
    let mut tested = Tested::new();
    tested.enter(1);
    tested.enter(1);
    let elsewhere = Haul {
        source: Source::new("default", "ns/other"),
        jobs: vec![],
        ttr_ms: 1000,
        now_ms: 1,
    };
    assert_eq!(tested.seats[0].put(elsewhere), Ok(()));
    let round = tested.line.next_round(1).unwrap();
    assert_eq!(round.claims.len(), 1);
    tested.hand_out(round, &[1]);
    assert_eq!(tested.at_seat(1), Some(vec![0]));
}

#[test]
fn a_call_reaches_further_while_there_is_enough() {
    let mut tested = Tested::new();
    for _ in 0..400 {
        tested.enter(1);
    }
    for reach in [8, 16, 32, 64, 100, 100] {
        let round = tested.line.next_round(1).unwrap();
        assert_eq!(round.claims.len(), reach);
        tested.hand_out(round, &vec![1; reach]);
    }
    let round = tested.line.next_round(1).unwrap();
    assert_eq!(round.claims.len(), 80);
    tested.hand_out(round, &[0; 80]);
    assert!(tested.line.next_round(1).is_none());
    tested.line.ring(None);
    assert_eq!(tested.line.next_round(1).unwrap().claims.len(), 8);
}

/// One doorbell rings for a burst of jobs, and each consumer has had a call in vain before.
#[test]
fn parked_consumers_beyond_the_first_call_get_the_rest_of_a_burst() {
    let mut tested = Tested::new();
    for _ in 0..12 {
        tested.enter(1);
    }
    let round = tested.line.next_round(1).unwrap();
    tested.hand_out(round, &[0; 8]);
    assert!(tested.line.next_round(1).is_none());
    tested.line.ring(None);
    let round = tested.line.next_round(1).unwrap();
    tested.hand_out(round, &[1; 8]);
    let round = tested.line.next_round(1).unwrap();
    assert_eq!(round.claims.len(), 4);
}

#[test]
fn a_call_that_finds_nothing_was_for_everyone_in_line() {
    let mut tested = Tested::new();
    for _ in 0..50 {
        tested.enter(1);
    }
    let round = tested.line.next_round(1).unwrap();
    assert_eq!(round.claims.len(), 8);
    tested.hand_out(round, &[0; 8]);
    assert_eq!(tested.at_seat(49), Some(vec![]));
    assert!(tested.line.next_round(1).is_none());
}

#[test]
fn a_failed_call_ends_the_first_round_of_everyone_in_line_and_no_wait() {
    let mut tested = Tested::new();
    for _ in 0..150 {
        tested.enter(1);
    }
    let round = tested.line.next_round(1).unwrap();
    assert_eq!(round.claims.len(), 8);
    tested.enter(1);
    tested.line.fail(&round);
    for seat in [0, 99, 149] {
        assert_eq!(tested.at_seat(seat), Some(vec![]));
        assert!(tested.seats[seat].has_failed_round());
    }
    assert_eq!(tested.at_seat(150), None, "it came after the call began");
    let round = tested.line.next_round(1).unwrap();
    assert_eq!(round.claims.len(), 8, "all keep their seats");
    tested.hand_out(round, &[1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(tested.at_seat(0), Some(vec![0]));
    assert_eq!(tested.at_seat(150), Some(vec![]));
    assert!(!tested.seats[150].has_failed_round());
}

#[test]
fn a_failed_lane_is_looked_into_again_by_a_retry_and_not_by_a_poll() {
    let mut tested = Tested::new();
    tested.enter(1);
    let failed = tested.line.next_round(2).unwrap();
    tested.line.fail(&failed);
    assert!(tested.line.has_failed(failed.lane));
    let other = 1 - failed.lane;
    assert_eq!(lanes_tried(&mut tested, 2), [other]);
    assert!(tested.line.is_answered());
    assert!(tested.line.poll());
    assert_eq!(lanes_tried(&mut tested, 2), [other]);

    assert!(tested.line.needs_retry());
    assert!(tested.line.retry());
    assert!(!tested.line.needs_retry(), "it is being retried");
    let round = tested.line.next_round(2).unwrap();
    assert_eq!(round.lane, failed.lane);
    assert!(!tested.line.needs_retry());
    tested.line.fail(&round);
    assert!(tested.line.needs_retry());
    assert!(tested.line.next_round(2).is_none());

    assert!(tested.line.retry());
    assert_eq!(lanes_tried(&mut tested, 2), [failed.lane]);
    assert!(!tested.line.needs_retry());
    assert!(!tested.line.has_failed(failed.lane));
    assert!(!tested.line.retry(), "there is nothing to retry");
    assert!(tested.line.poll());
    assert_eq!(lanes_tried(&mut tested, 2).len(), 2);
}

#[test]
fn nothing_is_known_of_a_queue_while_the_last_call_for_each_lane_failed() {
    let mut tested = Tested::new();
    tested.enter(1);
    assert!(!tested.line.is_answered());
    let round = tested.line.next_round(1).unwrap();
    tested.hand_out(round, &[0]);
    assert!(tested.line.is_answered());
    tested.line.ring(None);
    let round = tested.line.next_round(1).unwrap();
    tested.line.fail(&round);
    assert!(!tested.line.is_answered());
    tested.line.retry();
    let round = tested.line.next_round(1).unwrap();
    tested.hand_out(round, &[0]);
    assert!(tested.line.is_answered());
}

#[test]
fn a_failed_line_without_consumers_is_not_retried() {
    let mut tested = Tested::new();
    tested.enter(1);
    let round = tested.line.next_round(1).unwrap();
    tested.line.fail(&round);
    assert!(tested.line.next_round(1).is_none());
    assert!(tested.line.needs_retry());
    tested.line.leave(0);
    assert!(!tested.line.needs_retry());
    assert!(tested.line.is_over());
}

#[test]
fn an_empty_line_ends_its_loop() {
    let mut tested = Tested::new();
    tested.enter(1);
    tested.line.leave(0);
    assert!(!tested.line.is_over(), "the loop was started");
    assert!(tested.line.next_round(1).is_none());
    assert!(tested.line.is_over());
}

/// The lanes that rounds look into, one after the other, all of them in vain.
fn lanes_tried(tested: &mut Tested, lanes: u16) -> Vec<u16> {
    let mut tried = Vec::new();
    while let Some(round) = tested.line.next_round(lanes) {
        tried.push(round.lane);
        let nothing = vec![0; round.claims.len()];
        tested.hand_out(round, &nothing);
    }
    tried
}

#[test]
fn a_seat_has_had_its_round_when_all_lanes_were_tried() {
    let mut tested = Tested::new();
    tested.enter(1);
    let round = tested.line.next_round(4).unwrap();
    tested.hand_out(round, &[0]);
    assert_eq!(tested.at_seat(0), None);
    tested.enter(1);
    let mut tried = lanes_tried(&mut tested, 4);
    assert_eq!(tried.len(), 4, "the first lane again, for who came later");
    tried.sort_unstable();
    assert_eq!(tried, [0, 1, 2, 3]);
    assert_eq!(tested.at_seat(0), Some(vec![]));
    assert_eq!(tested.at_seat(1), Some(vec![]));
}

#[test]
fn lanes_take_turns_while_there_is_enough_in_all() {
    let mut tested = Tested::new();
    for _ in 0..1000 {
        tested.enter(1);
    }
    let mut last = None;
    for _ in 0..12 {
        let round = tested.line.next_round(3).unwrap();
        assert!(last.is_none_or(|last| round.lane == (last + 1) % 3));
        last = Some(round.lane);
        let jobs = vec![1; round.claims.len()];
        tested.hand_out(round, &jobs);
    }
}

#[test]
fn a_ring_of_a_lane_means_a_look_into_that_lane_only() {
    let mut tested = Tested::new();
    tested.enter(1);
    lanes_tried(&mut tested, 4);
    assert!(tested.line.ring(Some(2)));
    assert_eq!(lanes_tried(&mut tested, 4), [2]);
    assert!(tested.line.ring(None));
    assert_eq!(lanes_tried(&mut tested, 4).len(), 4);
    assert!(tested.line.ring(Some(4)), "no round knows of this lane yet");
    assert_eq!(lanes_tried(&mut tested, 5), [4]);
    assert!(tested.line.ring(None));
    assert_eq!(lanes_tried(&mut tested, 1), [0], "the others are gone");
}

#[test]
fn the_others_are_looked_into_while_a_lane_takes_long() {
    let mut tested = Tested::new();
    tested.enter(1);
    let slow = tested.line.next_round(3).unwrap();
    let tried = lanes_tried(&mut tested, 3);
    assert_eq!(tried.len(), 2);
    assert!(!tried.contains(&slow.lane));
    assert_eq!(tested.at_seat(0), None, "it has not been told of all lanes");
    tested.line.leave(0);
    assert!(!tested.line.is_over(), "a round is under way");
    tested.hand_out(slow, &[0]);
    assert!(tested.line.is_over());
}

#[test]
fn a_lane_that_fails_is_reported_when_the_others_have_nothing() {
    let mut tested = Tested::new();
    tested.enter(1);
    tested.enter(1);
    let round = tested.line.next_round(3).unwrap();
    tested.line.fail(&round);
    assert_eq!(tested.seats[0].look(&[0]), None);
    let round = tested.line.next_round(3).unwrap();
    tested.hand_out(round, &[1, 0]);
    assert_eq!(tested.at_seat(0), Some(vec![0]));
    assert_eq!(tested.seats[1].look(&[1]), None);
    lanes_tried(&mut tested, 3);
    assert_eq!(tested.at_seat(1), Some(vec![]));
    assert!(tested.seats[1].has_failed_round());
    assert!(tested.line.is_answered());
    assert!(!tested.line.has_failed_everywhere());
}

/// The order of queues holds for the lanes that answer.
#[test]
fn a_lane_that_has_failed_is_not_waited_for_beside_others() {
    let mut tested = Tested::new();
    tested.enter(1);
    let failed = tested.line.next_round(2).unwrap();
    tested.line.fail(&failed);
    lanes_tried(&mut tested, 2);
    tested.enter(1);
    let first = tested.line.next_round(2).unwrap();
    let second = tested.line.next_round(2).unwrap();
    let (failing, other) = match first.lane == failed.lane {
        true => (first, second),
        false => (second, first),
    };
    tested.hand_out(other, &[0, 0]);
    assert_eq!(tested.at_seat(1), Some(vec![]));
    assert!(tested.seats[1].has_failed_round(), "nothing is known of it");
    tested.line.fail(&failing);
}
