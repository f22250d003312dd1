//! The line of one queue: who waits, in which order, and when the next round is called for. Pure: it
//! knows neither time nor storage.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::{Job, QueueKey};
use tidegate_store::Claim;
use tokio::time::Instant;

use super::seat::{Haul, Seat};

/// How many jobs a call may take. Mostly a doorbell means one job, and asking on behalf of a hundred
/// seats would cost more than the job; so a call asks for a few, and for twice as many each time it
/// gets them all. The first claim is never cut short.
const REACH_MIN: usize = 8;
const REACH_MAX: usize = 100;

/// The seats of one queue, by ticket, which is the order of arrival.
#[derive(Debug)]
pub(super) struct Line {
    seats: BTreeMap<u64, Arc<Seat>>,
    /// Seats with lower tickets have had a round that began after their arrival.
    tried_below: u64,
    /// A serve loop is at work.
    serving: bool,
    /// Something happened that calls for another round.
    again: bool,
    /// How many jobs the next call may take.
    reach: usize,
    /// When the line is to be looked at, whatever happens. Kept here for the one who looks.
    pub(super) poll_at: Option<Instant>,
}

/// One call on behalf of a line.
#[derive(Debug)]
pub(super) struct Round {
    /// What is asked for, in the order of the seats.
    pub(super) claims: Vec<Claim>,
    seats: Vec<(u64, Arc<Seat>)>,
    /// Seats with lower tickets were in line when the round began.
    below: u64,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            seats: BTreeMap::new(),
            tried_below: 0,
            serving: false,
            again: false,
            reach: REACH_MIN,
            poll_at: None,
        }
    }
}

impl Line {
    /// Puts a seat at the end. Whether a serve loop has to be started.
    pub(super) fn enter(&mut self, ticket: u64, seat: Arc<Seat>) -> bool {
        self.seats.insert(ticket, seat);
        self.start()
    }

    /// Takes a seat out.
    pub(super) fn leave(&mut self, ticket: u64) {
        self.seats.remove(&ticket);
    }

    /// There may be jobs. Whether a serve loop has to be started.
    pub(super) fn ring(&mut self) -> bool {
        self.again = true;
        self.start()
    }

    fn start(&mut self) -> bool {
        !std::mem::replace(&mut self.serving, true)
    }

    /// Nobody waits and nobody serves: the line may go.
    pub(super) fn is_over(&self) -> bool {
        self.seats.is_empty() && !self.serving
    }

    /// Whether no serve loop is at work.
    pub(super) const fn is_parked(&self) -> bool {
        !self.serving
    }

    /// Tells every seat that there will be no more rounds.
    pub(super) fn close(&self) {
        for seat in self.seats.values() {
            seat.close();
        }
    }

    /// What the serve loop has to do next; `None` ends it.
    pub(super) fn next_round(&mut self) -> Option<Round> {
        let last = self.seats.last_key_value().map(|(ticket, _)| *ticket);
        let below = last.map_or(0, |ticket| ticket + 1);
        if !self.again && below <= self.tried_below {
            self.serving = false;
            return None;
        }
        self.again = false;
        let mut round = Round {
            claims: Vec::new(),
            seats: Vec::new(),
            below,
        };
        let mut room = self.reach;
        for (ticket, seat) in &self.seats {
            let count = usize::from(seat.claim.count);
            if !seat.is_waiting() {
                continue;
            }
            if count > room && !round.seats.is_empty() {
                break;
            }
            room = room.saturating_sub(count);
            round.claims.push(seat.claim);
            round.seats.push((*ticket, Arc::clone(seat)));
        }
        if round.seats.is_empty() {
            self.serving = false;
            return None;
        }
        Some(round)
    }

    /// Hands out what a round brought, `jobs` in the order of its claims. Answers what nobody took.
    pub(super) fn hand_out(
        &mut self,
        queue: &QueueKey,
        round: Round,
        jobs: Vec<Vec<Job>>,
        now_ms: u64,
    ) -> Vec<Haul> {
        let mut surplus = Vec::new();
        let mut all_satisfied = true;
        for ((ticket, seat), jobs) in round.seats.into_iter().zip(jobs) {
            all_satisfied &= jobs.len() >= usize::from(seat.claim.count);
            if jobs.is_empty() {
                continue;
            }
            self.seats.remove(&ticket);
            let queue = queue.clone();
            if let Err(haul) = seat.put(Haul {
                queue,
                jobs,
                now_ms,
            }) {
                surplus.push(haul);
            }
        }
        if all_satisfied {
            // There may be more. Those who were not in this round will be in the next.
            self.again = true;
            self.reach = (self.reach * 2).min(REACH_MAX);
        } else {
            // The queue was empty in the end: nobody behind would have found anything either.
            self.round_over(round.below);
            self.reach = REACH_MIN;
        }
        surplus
    }

    /// A call failed: so it did for everyone who was in line when it began. Waiting behind each other
    /// for the same failure would have no end.
    pub(super) fn fail(&mut self, round: &Round) {
        let behind = self.seats.split_off(&round.below);
        for seat in std::mem::replace(&mut self.seats, behind).into_values() {
            seat.fail();
        }
        self.tried_below = self.tried_below.max(round.below);
    }

    /// The serve loop came to an unexpected end: everyone is told, and the next one starts afresh.
    pub(super) fn abort(&mut self) {
        for seat in std::mem::take(&mut self.seats).into_values() {
            seat.fail();
        }
        self.serving = false;
    }

    fn round_over(&mut self, below: u64) {
        if below <= self.tried_below {
            return;
        }
        for (_, seat) in self.seats.range(self.tried_below..below) {
            seat.round_over();
        }
        self.tried_below = below;
    }
}

#[cfg(test)]
mod tests {
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
            let queue = QueueKey::try_from("ns/q").unwrap();
            let surplus = self.line.hand_out(&queue, round, jobs, 1);
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
            match self.seats[seat].look(1)? {
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
        let round = tested.line.next_round().unwrap();
        assert_eq!(Tested::counts(&round), [1, 2, 1]);
        assert_eq!(tested.hand_out(round, &[1, 2, 0]), 0);
        assert_eq!(tested.at_seat(0), Some(vec![0]));
        assert_eq!(tested.at_seat(1), Some(vec![1, 2]));
        assert_eq!(tested.at_seat(2), Some(vec![]));
        assert!(tested.line.next_round().is_none());
        assert!(!tested.line.is_over(), "one still waits");
        tested.line.leave(2);
        assert!(tested.line.is_over());
    }

    #[test]
    fn who_arrives_during_a_call_gets_a_call_of_his_own() {
        let mut tested = Tested::new();
        tested.enter(1);
        let round = tested.line.next_round().unwrap();
        tested.enter(1);
        tested.hand_out(round, &[0]);
        assert_eq!(tested.at_seat(0), Some(vec![]));
        assert_eq!(tested.at_seat(1), None, "his round has not begun");
        let round = tested.line.next_round().unwrap();
        assert_eq!(
            round.claims.len(),
            2,
            "the one who waits is still before him"
        );
        tested.hand_out(round, &[0, 0]);
        assert_eq!(tested.at_seat(1), Some(vec![]));
        assert!(tested.line.next_round().is_none());
    }

    #[test]
    fn a_ring_during_a_call_means_again() {
        let mut tested = Tested::new();
        tested.enter(1);
        let round = tested.line.next_round().unwrap();
        assert!(!tested.line.ring(), "the loop is at work already");
        tested.hand_out(round, &[0]);
        let round = tested.line.next_round().unwrap();
        tested.hand_out(round, &[0]);
        assert!(tested.line.next_round().is_none());
        assert!(tested.line.ring(), "the loop has ended");
        assert!(tested.line.next_round().is_some());
    }

    #[test]
    fn a_round_takes_what_fits_and_nobody_overtakes_the_next() {
        let mut tested = Tested::new();
        for count in [100, 5, 1, 11, 3, 1] {
            tested.enter(count);
        }
        let round = tested.line.next_round().unwrap();
        assert_eq!(Tested::counts(&round), [100], "never cut short");
        tested.hand_out(round, &[100]);
        let round = tested.line.next_round().unwrap();
        assert_eq!(Tested::counts(&round), [5, 1], "11 more are above 16");
        tested.hand_out(round, &[5, 1]);
        let round = tested.line.next_round().unwrap();
        assert_eq!(Tested::counts(&round), [11, 3, 1]);
        tested.hand_out(round, &[11, 2, 0]);
        assert_eq!(tested.at_seat(4).map(|jobs| jobs.len()), Some(2));
        assert_eq!(tested.at_seat(5), Some(vec![]), "nothing was left");
        assert!(tested.line.next_round().is_none());
    }

    #[test]
    fn jobs_for_a_seat_that_was_left_are_surplus() {
        let mut tested = Tested::new();
        tested.enter(2);
        tested.enter(1);
        let round = tested.line.next_round().unwrap();
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
            queue: QueueKey::try_from("ns/other").unwrap(),
            jobs: vec![],
            now_ms: 1,
        };
        assert_eq!(tested.seats[0].put(elsewhere), Ok(()));
        let round = tested.line.next_round().unwrap();
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
            let round = tested.line.next_round().unwrap();
            assert_eq!(round.claims.len(), reach);
            tested.hand_out(round, &vec![1; reach]);
        }
        let round = tested.line.next_round().unwrap();
        assert_eq!(round.claims.len(), 80);
        tested.hand_out(round, &[0; 80]);
        assert!(tested.line.next_round().is_none());
        tested.line.ring();
        assert_eq!(tested.line.next_round().unwrap().claims.len(), 8);
    }

    #[test]
    fn a_call_that_finds_nothing_was_for_everyone_in_line() {
        let mut tested = Tested::new();
        for _ in 0..50 {
            tested.enter(1);
        }
        let round = tested.line.next_round().unwrap();
        assert_eq!(round.claims.len(), 8);
        tested.hand_out(round, &[0; 8]);
        assert_eq!(tested.at_seat(49), Some(vec![]));
        assert!(tested.line.next_round().is_none());
    }

    #[test]
    fn a_failure_is_told_to_everyone_who_was_in_line() {
        let mut tested = Tested::new();
        for _ in 0..150 {
            tested.enter(1);
        }
        let round = tested.line.next_round().unwrap();
        assert_eq!(round.claims.len(), 8);
        tested.enter(1);
        tested.line.fail(&round);
        for seat in [0, 99, 149] {
            assert_eq!(tested.seats[seat].look(1), Some(News::Failed));
        }
        assert_eq!(
            tested.at_seat(150),
            None,
            "who came later has a round of his own"
        );
        let round = tested.line.next_round().unwrap();
        assert_eq!(round.claims.len(), 1);
    }

    #[test]
    fn an_empty_line_ends_its_loop() {
        let mut tested = Tested::new();
        tested.enter(1);
        tested.line.leave(0);
        assert!(!tested.line.is_over(), "the loop was started");
        assert!(tested.line.next_round().is_none());
        assert!(tested.line.is_over());
    }
}
