//! The wait queue of one source: the seats in order of arrival, and the lane that the next round checks. Pure: it does
//! no I/O and reads no clock.

mod failures;
mod hold;
mod lane_state;
mod lane_turn;
mod registrations;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_store::{Claim, ReservedJobs};
use tokio::time::Instant;

use self::hold::Hold;
use self::lane_state::LaneState;
use self::lane_turn::LaneTurn;
use super::seat::{Reservation, Seat};
use super::source::Source;

/// The seats that wait for jobs of one source, by ticket, which is the order of arrival.
#[derive(Debug)]
pub(super) struct WaitQueue {
    seats: BTreeMap<u64, Arc<Seat>>,
    lanes: Vec<LaneState>,
    turn: LaneTurn,
    /// Seats with lower tickets were notified that all lanes have been checked for them.
    notified_below: u64,
    /// Whether a serve loop has the lead.
    serving: bool,
    /// While a rate holds it back.
    hold: Option<Hold>,
    /// When the last serve loop ended; `None` until the first loop has ended. Set and read by the caller.
    pub(super) served_at: Option<Instant>,
}

/// One reserve call on behalf of a wait queue.
#[derive(Debug)]
pub(super) struct Round {
    /// The lane that is checked.
    pub(super) lane: u16,
    /// The claims, in the order of the seats.
    pub(super) claims: Vec<Claim>,
    seats: Vec<(u64, Arc<Seat>)>,
    /// Seats with lower tickets were waiting when the round began.
    below: u64,
    /// The events of the lane before it.
    events: u64,
    /// Whether it follows a doorbell.
    is_rung: bool,
    /// Whether some seats wait for jobs that come later. Seats that are not in the round count: it checks the lane for
    /// them.
    pub(super) waits: bool,
}

impl Round {
    /// The number of jobs that it claims.
    pub(super) fn wanted(&self) -> u64 {
        self.claims.iter().map(|claim| u64::from(claim.count)).sum()
    }

    /// Reduces the claims to this number of jobs, from the last one on. At least one is left.
    pub(super) fn reduce_to(&mut self, jobs: u64) {
        let mut left = jobs;
        for claim in &mut self.claims {
            let count = left.min(u64::from(claim.count));
            claim.count = u16::try_from(count).unwrap_or(u16::MAX);
            left -= count;
        }
        self.claims.retain(|claim| claim.count > 0);
        self.waits |= self.claims.len() < self.seats.len();
        self.seats.truncate(self.claims.len());
    }
}

/// The outcome of a round for the seats.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    /// Seats with jobs, to be notified.
    pub(super) served: Vec<Arc<Seat>>,
    /// The jobs that no seat took.
    pub(super) surplus: Vec<Reservation>,
}

impl Default for WaitQueue {
    fn default() -> Self {
        Self {
            seats: BTreeMap::new(),
            lanes: Vec::with_capacity(1),
            turn: LaneTurn::default(),
            notified_below: 0,
            serving: false,
            hold: None,
            served_at: None,
        }
    }
}

impl WaitQueue {
    /// Adds a seat at the end. Returns whether the caller must start a serve loop. A seat that waits needs no round
    /// while the process is registered for all lanes and nothing has happened: they are empty, or their jobs have rung
    /// another process, which takes them or passes the doorbell on.
    ///
    /// `must_check`: the seat needs a round nevertheless. Jobs that are on their way to another process count for the
    /// order of queues.
    pub(super) fn enter(&mut self, ticket: u64, seat: Arc<Seat>, must_check: bool) -> bool {
        let is_checked = !must_check && self.is_known_to_be_empty();
        self.seats.insert(ticket, seat);
        if !is_checked {
            return self.start();
        }
        for lane in &mut self.lanes {
            lane.checked_below = ticket + 1;
        }
        self.notify_checked();
        false
    }

    /// Removes a seat.
    pub(super) fn leave(&mut self, ticket: u64) {
        self.seats.remove(&ticket);
    }

    /// Requests a check of this lane, or of all lanes. Returns whether the caller must start a serve loop.
    pub(super) fn ring(&mut self, lane: Option<u16>) -> bool {
        let all = &mut self.lanes[..];
        let rung = match lane.map(usize::from) {
            // A lane that is not in the list has not been checked yet, so the next round that knows it checks it.
            Some(lane) => all.get_mut(lane..=lane).unwrap_or_default(),
            None => all,
        };
        rung.iter_mut().for_each(LaneState::ring);
        self.start()
    }

    /// Requests a check of this lane from the serve loop, or from the next one if there is none: its doorbell may be
    /// lost.
    pub(super) fn request_check(&mut self, lane: u16) {
        if let Some(lane) = self.lanes.get_mut(usize::from(lane)) {
            lane.ring();
        }
    }

    /// The lanes to poll, and the number of their events so far: those whose last call did not fail. [`Self::retry`] is
    /// for the others.
    pub(super) fn polled_lanes(&self) -> impl Iterator<Item = (u16, u64)> {
        let lanes = (0..).zip(&self.lanes);
        let polled = lanes.filter(|(_, lane)| !lane.has_failed);
        polled.map(|(number, lane)| (number, lane.events))
    }

    /// The lanes with a round in flight.
    pub(super) fn busy_lanes(&self) -> Vec<u16> {
        let lanes = (0..).zip(&self.lanes);
        let busy = lanes.filter(|(_, lane)| lane.busy);
        busy.map(|(number, _)| number).collect()
    }

    /// Gives a serve loop the lead. Returns whether the caller must start it, as none had the lead before.
    pub(super) fn start(&mut self) -> bool {
        !std::mem::replace(&mut self.serving, true)
    }

    /// Takes the lead from a serve loop whose call takes long, so that another one can have it.
    pub(super) const fn release_lead(&mut self) {
        self.serving = false;
    }

    /// The number of seats.
    pub(super) fn len(&self) -> usize {
        self.seats.len()
    }

    /// Whether there are no seats, no serve loop, no round in flight, no registration, no doorbell to be passed on and no
    /// hold, so that the wait queue can be dropped. Without its hold each consumer that comes would ask for units.
    pub(super) fn is_idle(&self) -> bool {
        let is_used = |lane: &LaneState| lane.busy || lane.is_registered || lane.is_rung;
        self.seats.is_empty()
            && !self.serving
            && self.hold.is_none()
            && !self.lanes.iter().any(is_used)
    }

    /// Whether no serve loop has the lead.
    pub(super) const fn is_parked(&self) -> bool {
        !self.serving
    }

    /// Whether it has no seats, and its last serve loop ended before this time.
    pub(super) fn is_left_since(&self, time: Instant) -> bool {
        let is_before = |served_at| served_at <= time;
        self.seats.is_empty() && !self.serving && self.served_at.is_some_and(is_before)
    }

    /// Notifies every seat that there will be no more rounds.
    pub(super) fn close(&self) {
        for seat in self.seats.values() {
            seat.close();
        }
    }

    /// The next round of the serve loop; `None` ends the loop. `lanes` is the number of lanes of the queue, and
    /// `now` the time, which ends the turn of a lane.
    pub(super) fn next_round(&mut self, lanes: u16, now: Instant) -> Option<Round> {
        self.lanes
            .resize_with(usize::from(lanes), LaneState::default);
        let last = self.seats.last_key_value().map(|(ticket, _)| *ticket);
        let below = last.map_or(0, |ticket| ticket + 1);
        let lane = match self.is_held(now) {
            true => {
                self.hold_back(below);
                None
            }
            false => self.next_lane(below, now),
        };
        let round = lane.and_then(|lane| self.round(lane, below, now));
        self.serving = round.is_some();
        if round.is_none() {
            self.turn.pause();
        }
        round
    }

    /// The next lane, in turn, that needs a check and has no round in flight.
    fn next_lane(&self, below: u64, now: Instant) -> Option<usize> {
        let mut in_turn = self.turn.order(self.lanes.len(), now);
        in_turn.find(|lane| {
            let lane = &self.lanes[*lane];
            !lane.busy && (lane.check_requested || lane.checked_below < below)
        })
    }

    fn round(&mut self, number: usize, below: u64, now: Instant) -> Option<Round> {
        let lane = &mut self.lanes[number];
        lane.check_requested = false;
        let (mut claims, mut seats) = (Vec::new(), Vec::new());
        let mut room = lane.claim_max;
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
        let is_rung = std::mem::take(&mut lane.is_rung);
        let events = lane.events;
        self.turn.begin(number, now);
        Some(Round {
            lane: number as u16,
            waits: seats.len() < self.seats.len() || seats.iter().any(|(_, seat)| seat.waits),
            claims,
            seats,
            below,
            events,
            is_rung,
        })
    }

    /// Delivers the result of a round to its seats; `jobs` are in the order of the claims. Jobs of seats that were left
    /// meanwhile go to other seats that were waiting when the round began. The lane gets no further round until the
    /// jobs that no seat took are released: [`Self::free`].
    pub(super) fn deliver(
        &mut self,
        source: &Source,
        round: Round,
        reserved: ReservedJobs,
    ) -> Deliveries {
        let ReservedJobs {
            jobs,
            now_ms,
            is_registered,
        } = reserved;
        let mut deliveries = Deliveries::default();
        let mut left = Vec::new();
        let mut all_satisfied = true;
        let seats = round.seats.into_iter().zip(&round.claims);
        for (((ticket, seat), claim), jobs) in seats.zip(jobs) {
            all_satisfied &= jobs.len() >= usize::from(claim.count);
            if jobs.is_empty() {
                continue;
            }
            self.seats.remove(&ticket);
            let source = source.clone();
            let lease = seat.claim.lease;
            match seat.deliver(Reservation {
                source,
                ticket,
                jobs,
                lease,
                now_ms,
            }) {
                Ok(()) => deliveries.served.push(seat),
                Err(reservation) => left.push(reservation),
            }
        }
        for reservation in left {
            let rest = self.deliver_to_others(reservation, round.below, &mut deliveries.served);
            deliveries.surplus.extend(rest);
        }
        if let Some(lane) = self.lanes.get_mut(usize::from(round.lane)) {
            lane.busy = !deliveries.surplus.is_empty();
            lane.has_failed = false;
            lane.is_answered = true;
            lane.is_registered = is_registered && lane.events == round.events;
            match all_satisfied && !lane.is_registered {
                true => lane.record_filled(),
                false => {
                    lane.record_emptied(round.below);
                    self.turn.end(usize::from(round.lane));
                }
            }
        }
        self.notify_checked();
        deliveries
    }

    /// The jobs that no seat took have been released to this lane.
    pub(super) fn free(&mut self, lane: u16) {
        if let Some(lane) = self.lanes.get_mut(usize::from(lane)) {
            lane.busy = false;
        }
    }

    /// Delivers jobs to other seats with tickets below `below` and the same lease length, which are added to `served`.
    /// Returns the jobs that no seat took.
    ///
    /// A consumer of several queues leaves the wait queue of a slow server when another queue has a job. If the jobs of
    /// the slow server were always released then, its queue would rarely be consumed. Seats with higher tickets get
    /// none: the leases may have begun before their requests.
    fn deliver_to_others(
        &mut self,
        mut reservation: Reservation,
        below: u64,
        served: &mut Vec<Arc<Seat>>,
    ) -> Option<Reservation> {
        let is_fit = |seat: &Seat| seat.is_waiting() && seat.claim.lease == reservation.lease;
        let fit = self.seats.range(..below).filter(|(_, seat)| is_fit(seat));
        let tickets: Vec<u64> = fit.map(|(ticket, _)| *ticket).collect();
        for ticket in tickets {
            let Some(seat) = self.seats.remove(&ticket) else {
                continue;
            };
            let rest = reservation.split_off(usize::from(seat.claim.count));
            reservation.ticket = ticket;
            let Err(refused) = seat.deliver(reservation) else {
                served.push(seat);
                reservation = rest?;
                continue;
            };
            reservation = refused;
            reservation
                .jobs
                .extend(rest.into_iter().flat_map(|rest| rest.jobs));
        }
        Some(reservation)
    }

    /// The serve loop came to an unexpected end: all seats fail, and the state of the lanes is reset.
    pub(super) fn abort(&mut self) {
        for seat in std::mem::take(&mut self.seats).into_values() {
            seat.fail();
        }
        self.lanes.clear();
        self.serving = false;
    }

    /// Notifies the seats for which all lanes have been checked without a job, and whether the last call for a lane
    /// failed. Lanes that failed are not waited for, unless all have failed.
    fn notify_checked(&mut self) {
        let has_failed = self.lanes.iter().any(|lane| lane.has_failed);
        let only_failed = self.has_failed_everywhere();
        let waited_for = |lane: &&LaneState| only_failed || !lane.has_failed;
        let waited_for = self.lanes.iter().filter(waited_for);
        let below = waited_for.map(|lane| lane.checked_below).min().unwrap_or(0);
        if below > self.notified_below {
            for (ticket, seat) in self.seats.range(self.notified_below..below) {
                seat.first_round_over(*ticket, has_failed);
            }
            self.notified_below = below;
        }
    }
}

#[cfg(test)]
mod tests;
