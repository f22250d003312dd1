//! The line of one queue: who waits, in which order, and when the next round is called for. Pure: it
//! knows neither time nor storage.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::Job;
use tidegate_store::Claim;
use tokio::time::Instant;

use super::Source;
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

    /// How many seats there are.
    pub(super) fn len(&self) -> usize {
        self.seats.len()
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
        source: &Source,
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
            let source = source.clone();
            if let Err(haul) = seat.put(Haul {
                source,
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
mod tests;
