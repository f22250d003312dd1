//! The line of one queue: who waits, in which order, and which lane the next round looks into. Pure: it
//! knows neither time nor storage.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::{DURATION_MS_MAX, Job};
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
    lanes: Vec<Lane>,
    /// The lane that is next in turn.
    turn: usize,
    /// Seats with lower tickets were told that all lanes have been tried.
    told_below: u64,
    /// A serve loop is at work.
    serving: bool,
    /// When the line is to be looked at, whatever happens. Kept here for the one who looks.
    pub(super) poll_at: Option<Instant>,
}

/// What the line knows of a lane of its queue.
#[derive(Debug)]
struct Lane {
    /// Seats with lower tickets have had a round in this lane that began after their arrival.
    tried_below: u64,
    /// The last call failed.
    has_failed: bool,
    /// The last call was answered.
    is_answered: bool,
    /// Something happened that calls for another round.
    again: bool,
    /// A round is under way.
    busy: bool,
    /// How many jobs the next round may take.
    reach: usize,
}

/// One call on behalf of a line.
#[derive(Debug)]
pub(super) struct Round {
    /// The lane that is looked into.
    pub(super) lane: u16,
    /// What is asked for, in the order of the seats.
    pub(super) claims: Vec<Claim>,
    seats: Vec<(u64, Arc<Seat>)>,
    /// Seats with lower tickets were in line when the round began.
    below: u64,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            tried_below: 0,
            has_failed: false,
            is_answered: false,
            again: false,
            busy: false,
            reach: REACH_MIN,
        }
    }
}

/// Begins with any lane: a line that nobody is in is forgotten, and with it whose turn it was.
impl Default for Line {
    fn default() -> Self {
        Self {
            seats: BTreeMap::new(),
            lanes: Vec::with_capacity(1),
            turn: usize::from(rand::random::<u16>()),
            told_below: 0,
            serving: false,
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

    /// There may be jobs: in this lane, or in any. Whether a serve loop has to be started.
    pub(super) fn ring(&mut self, lane: Option<u16>) -> bool {
        let all = &mut self.lanes[..];
        let rung = match lane.map(usize::from) {
            // A lane that no round has looked into yet is looked into anyway.
            Some(lane) => all.get_mut(lane..=lane).unwrap_or_default(),
            None => all,
        };
        rung.iter_mut().for_each(|lane| lane.again = true);
        self.start()
    }

    /// Has the lanes looked into again whose last call was answered. The others are retried at the pace of
    /// [`Self::retry`]. Whether a serve loop has to be started.
    pub(super) fn poll(&mut self) -> bool {
        self.ring_lanes(|lane| !lane.has_failed)
    }

    /// Has the lanes looked into again whose last call failed. Whether a serve loop has to be started.
    pub(super) fn retry(&mut self) -> bool {
        self.ring_lanes(|lane| lane.has_failed)
    }

    fn ring_lanes(&mut self, wanted: impl Fn(&Lane) -> bool) -> bool {
        let mut is_rung = false;
        for lane in self.lanes.iter_mut().filter(|lane| wanted(lane)) {
            lane.again = true;
            is_rung = true;
        }
        is_rung && self.start()
    }

    /// The lanes that are being looked into.
    pub(super) fn busy_lanes(&self) -> Vec<u16> {
        let lanes = (0..).zip(&self.lanes);
        let busy = lanes.filter(|(_, lane)| lane.busy);
        busy.map(|(number, _)| number).collect()
    }

    /// Consumers wait, and the last call for one of the lanes failed. It is not yet being repeated.
    pub(super) fn needs_retry(&self) -> bool {
        let is_idle = |lane: &Lane| !lane.busy && !lane.again;
        let mut failed = self.lanes.iter().filter(|lane| lane.has_failed);
        !self.seats.is_empty() && failed.any(is_idle)
    }

    /// Whether the last call for this lane failed.
    pub(super) fn has_failed(&self, lane: u16) -> bool {
        let lane = self.lanes.get(usize::from(lane));
        lane.is_some_and(|lane| lane.has_failed)
    }

    /// Whether the last call for each of the lanes failed.
    pub(super) fn has_failed_everywhere(&self) -> bool {
        !self.lanes.is_empty() && self.lanes.iter().all(|lane| lane.has_failed)
    }

    /// Whether the last call for one of the lanes was answered: otherwise nothing is known of the queue.
    pub(super) fn is_answered(&self) -> bool {
        self.lanes.iter().any(|lane| lane.is_answered)
    }

    /// Whether a serve loop has to be started.
    pub(super) fn start(&mut self) -> bool {
        !std::mem::replace(&mut self.serving, true)
    }

    /// How many seats there are.
    pub(super) fn len(&self) -> usize {
        self.seats.len()
    }

    /// Nobody waits and nobody serves: the line may go.
    pub(super) fn is_over(&self) -> bool {
        self.seats.is_empty() && !self.serving && !self.lanes.iter().any(|lane| lane.busy)
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

    /// What the serve loop has to do next, where the queue has so many lanes; `None` ends it.
    pub(super) fn next_round(&mut self, lanes: u16) -> Option<Round> {
        self.lanes.resize_with(usize::from(lanes), Lane::default);
        let last = self.seats.last_key_value().map(|(ticket, _)| *ticket);
        let below = last.map_or(0, |ticket| ticket + 1);
        let round = self
            .next_lane(below)
            .and_then(|lane| self.round(lane, below));
        self.serving = round.is_some();
        round
    }

    /// The next lane that there is a reason to look into, and that nobody is looking into.
    fn next_lane(&self, below: u64) -> Option<usize> {
        let count = self.lanes.len();
        let mut in_turn = (0..count).map(|step| (self.turn + step) % count);
        in_turn.find(|lane| {
            let lane = &self.lanes[*lane];
            !lane.busy && (lane.again || lane.tried_below < below)
        })
    }

    fn round(&mut self, number: usize, below: u64) -> Option<Round> {
        let lane = &mut self.lanes[number];
        lane.again = false;
        let (mut claims, mut seats) = (Vec::new(), Vec::new());
        let mut room = lane.reach;
        for (ticket, seat) in &self.seats {
            let count = usize::from(seat.claim.count);
            if !seat.is_waiting() {
                continue;
            }
            if count > room && !seats.is_empty() {
                break;
            }
            room = room.saturating_sub(count);
            claims.push(seat.claim);
            seats.push((*ticket, Arc::clone(seat)));
        }
        if seats.is_empty() {
            return None;
        }
        lane.busy = true;
        self.turn = number + 1;
        Some(Round {
            lane: number as u16,
            claims,
            seats,
            below,
        })
    }

    /// Hands out what a round brought, `jobs` in the order of its claims. Jobs for seats that were left meanwhile go to
    /// others that were in line when the round began. Returns those that no seat takes: while they are given back the lane is
    /// not looked into, until [`Self::free`].
    pub(super) fn hand_out(
        &mut self,
        source: &Source,
        round: Round,
        jobs: Vec<Vec<Job>>,
        now_ms: u64,
    ) -> Vec<Haul> {
        let mut left = Vec::new();
        let mut all_satisfied = true;
        for ((ticket, seat), jobs) in round.seats.into_iter().zip(jobs) {
            all_satisfied &= jobs.len() >= usize::from(seat.claim.count);
            if jobs.is_empty() {
                continue;
            }
            self.seats.remove(&ticket);
            let source = source.clone();
            let ttr_ms = seat.claim.ttr_ms.min(DURATION_MS_MAX);
            if let Err(haul) = seat.put(Haul {
                source,
                jobs,
                ttr_ms,
                now_ms,
            }) {
                left.push(haul);
            }
        }
        let surplus: Vec<Haul> = left
            .into_iter()
            .filter_map(|haul| self.pass_on(haul, round.below))
            .collect();
        if let Some(lane) = self.lanes.get_mut(usize::from(round.lane)) {
            lane.busy = !surplus.is_empty();
            lane.has_failed = false;
            lane.is_answered = true;
            if all_satisfied {
                // There may be more. Those who were not in this round will be in the next.
                lane.again = true;
                lane.reach = (lane.reach * 2).min(REACH_MAX);
            } else {
                // The lane was empty in the end: nobody behind would have found anything either.
                lane.tried_below = lane.tried_below.max(round.below);
                lane.reach = REACH_MIN;
            }
        }
        self.tell();
        surplus
    }

    /// The jobs that no seat took have been given back to this lane.
    pub(super) fn free(&mut self, lane: u16) {
        if let Some(lane) = self.lanes.get_mut(usize::from(lane)) {
            lane.busy = false;
        }
    }

    /// Gives jobs to other seats with lower tickets whose leases are of the same length. Returns those that no seat takes.
    /// Consumers of several queues leave a line whose server takes long; if their jobs always went back, such a queue would
    /// seldom be consumed. Seats with higher tickets get none: the leases may have begun before their requests.
    fn pass_on(&mut self, mut haul: Haul, below: u64) -> Option<Haul> {
        let is_fit = |seat: &Seat| {
            seat.is_waiting() && seat.claim.ttr_ms.min(DURATION_MS_MAX) == haul.ttr_ms
        };
        let fit = self.seats.range(..below).filter(|(_, seat)| is_fit(seat));
        let tickets: Vec<u64> = fit.map(|(ticket, _)| *ticket).collect();
        for ticket in tickets {
            let Some(seat) = self.seats.remove(&ticket) else {
                continue;
            };
            let rest = haul.split_off(usize::from(seat.claim.count));
            let Err(refused) = seat.put(haul) else {
                haul = rest?;
                continue;
            };
            haul = refused;
            haul.jobs
                .extend(rest.into_iter().flat_map(|rest| rest.jobs));
        }
        Some(haul)
    }

    /// A call failed. It was for everyone who was in line when it began: one call for each of them would
    /// fail as well. They keep their seats.
    pub(super) fn fail(&mut self, round: &Round) {
        if let Some(lane) = self.lanes.get_mut(usize::from(round.lane)) {
            lane.busy = false;
            lane.is_answered = false;
            lane.tried_below = lane.tried_below.max(round.below);
            lane.has_failed = true;
        }
        self.tell();
    }

    /// The serve loop came to an unexpected end: everyone is told, and the next one starts afresh.
    pub(super) fn abort(&mut self) {
        for seat in std::mem::take(&mut self.seats).into_values() {
            seat.fail();
        }
        self.lanes.clear();
        self.serving = false;
    }

    /// Notifies the seats for which all lanes have been tried in vain, and whether the last call for one failed. Lanes
    /// that failed are not waited for beside others.
    fn tell(&mut self) {
        let has_failed = self.lanes.iter().any(|lane| lane.has_failed);
        let only_failed = self.has_failed_everywhere();
        let waited_for = |lane: &&Lane| only_failed || !lane.has_failed;
        let waited_for = self.lanes.iter().filter(waited_for);
        let below = waited_for.map(|lane| lane.tried_below).min().unwrap_or(0);
        if below > self.told_below {
            for (ticket, seat) in self.seats.range(self.told_below..below) {
                seat.round_over(*ticket, has_failed);
            }
            self.told_below = below;
        }
    }
}

#[cfg(test)]
mod tests;
