//! The seat of a waiting consumer, which receives its jobs.

use parking_lot::Mutex;
use tidegate_core::Job;
use tidegate_store::{Claim, LeaseLength, LeasedJob};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::source::Source;

/// Jobs of one source that were reserved for one claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    pub(super) source: Source,
    /// The place of the seat in the wait queue of the source. It has left that.
    pub(super) ticket: u64,
    pub(super) jobs: Vec<Job>,
    /// The length of their leases.
    pub(super) lease: LeaseLength,
    /// The clock of Redis when the last of them was reserved, in ms since the Unix epoch.
    pub(super) now_ms: u64,
}

impl Reservation {
    /// Removes and returns the jobs behind the first `count`, if there are any.
    pub(super) fn split_off(&mut self, count: usize) -> Option<Self> {
        if self.jobs.len() <= count {
            return None;
        }
        Some(Self {
            source: self.source.clone(),
            ticket: self.ticket,
            jobs: self.jobs.split_off(count),
            lease: self.lease,
            now_ms: self.now_ms,
        })
    }

    /// The deliveries, with which the jobs are released.
    pub(super) fn leased(&self) -> Vec<LeasedJob> {
        let leased = |job: &Job| LeasedJob {
            id: job.id,
            attempt: job.attempt,
        };
        self.jobs.iter().map(leased).collect()
    }
}

/// The state in which a consumer finds its seat.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SeatOutcome {
    /// Jobs were delivered. The seat is left.
    Jobs(Reservation),
    /// The first rounds that were awaited are over and found no job.
    NothingYet,
    /// The serve loop ended unexpectedly. The seat is left.
    Failed,
    /// The wait queues are closed. The seat is left.
    Closed,
}

/// A seat. A consumer has one, however many wait queues it is in.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) claim: Claim,
    /// Whether it waits for jobs that come later.
    pub(super) waits: bool,
    state: Mutex<SeatState>,
    changed: Notify,
}

#[derive(Debug)]
enum SeatState {
    /// The wait queues that were entered with the tickets `over`, which are sorted, have had their first round for the
    /// seat, without a job. `failed`: a call of one of these rounds failed.
    Waiting {
        over: Vec<u64>,
        failed: bool,
    },
    Holding(Reservation),
    Failed,
    Closed,
    Left,
}

impl Seat {
    pub(super) fn new(claim: Claim, waits: bool) -> Self {
        Self {
            claim,
            waits,
            state: Mutex::new(SeatState::Waiting {
                over: Vec::new(),
                failed: false,
            }),
            changed: Notify::new(),
        }
    }

    /// Whether the seat waits for jobs.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(*self.state.lock(), SeatState::Waiting { .. })
    }

    /// Whether the seat waits, and a call of the first round of a wait queue failed.
    pub(super) fn has_failed_round(&self) -> bool {
        matches!(*self.state.lock(), SeatState::Waiting { failed: true, .. })
    }

    /// Delivers jobs to the seat. The caller must notify it afterwards, without the lock of the wait queues: a consumer
    /// on another thread is woken by a system call.
    ///
    /// # Errors
    /// Returns the jobs if the seat does not wait any more.
    pub(super) fn deliver(&self, reservation: Reservation) -> Result<(), Reservation> {
        let mut state = self.state.lock();
        if !matches!(*state, SeatState::Waiting { .. }) {
            return Err(reservation);
        }
        *state = SeatState::Holding(reservation);
        Ok(())
    }

    /// Wakes the consumer, after jobs were delivered to the seat.
    pub(super) fn notify(&self) {
        self.changed.notify_one();
    }

    /// Records that the first round of a wait queue, which the seat entered with this ticket, is over and found no job.
    /// `has_failed`: a call of the round failed.
    pub(super) fn first_round_over(&self, ticket: u64, has_failed: bool) {
        if let SeatState::Waiting { over, failed } = &mut *self.state.lock() {
            if let Err(index) = over.binary_search(&ticket) {
                over.insert(index, ticket);
            }
            *failed |= has_failed;
        }
        self.changed.notify_one();
    }

    /// Ends the wait because the serve loop ended unexpectedly.
    pub(super) fn fail(&self) {
        self.end(SeatState::Failed);
    }

    /// Ends the wait because there will be no more rounds.
    pub(super) fn close(&self) {
        self.end(SeatState::Closed);
    }

    fn end(&self, end: SeatState) {
        let mut state = self.state.lock();
        if matches!(*state, SeatState::Waiting { .. }) {
            *state = end;
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Waits until the wait has ended, or the first rounds of the wait queues with these tickets are over.
    pub(super) async fn wait(&self, tickets: &[u64]) -> SeatOutcome {
        loop {
            if let Some(outcome) = self.try_take(tickets) {
                return outcome;
            }
            // `notify_one` stores a permit for a change between the check and this await.
            self.changed.notified().await;
        }
    }

    /// Waits until the seat no longer waits for jobs.
    pub(super) async fn ended(&self) {
        while self.is_waiting() {
            self.changed.notified().await;
        }
    }

    /// The same, or until `deadline`, if there is one.
    pub(super) async fn ended_until(&self, deadline: Option<Instant>) {
        match deadline {
            Some(deadline) => {
                let _ = timeout_at(deadline, self.ended()).await;
            }
            None => self.ended().await,
        }
    }

    /// Takes the outcome of the wait, if it has ended. Otherwise `NothingYet` if the first rounds of the wait queues
    /// with these tickets are over, else `None`.
    pub(super) fn try_take(&self, tickets: &[u64]) -> Option<SeatOutcome> {
        let state = self.state.lock();
        if let SeatState::Waiting { over, .. } = &*state {
            let all_over = tickets
                .iter()
                .all(|ticket| over.binary_search(ticket).is_ok());
            return all_over.then_some(SeatOutcome::NothingYet);
        }
        drop(state);
        Some(self.end_wait())
    }

    /// Leaves the seat. Returns the outcome of the wait; `NothingYet` if the seat still waited for jobs.
    pub(super) fn end_wait(&self) -> SeatOutcome {
        match std::mem::replace(&mut *self.state.lock(), SeatState::Left) {
            SeatState::Waiting { .. } => SeatOutcome::NothingYet,
            SeatState::Holding(reservation) => SeatOutcome::Jobs(reservation),
            SeatState::Failed => SeatOutcome::Failed,
            SeatState::Closed | SeatState::Left => SeatOutcome::Closed,
        }
    }

    /// Leaves the seat, and returns jobs that were delivered to it and not taken.
    pub(super) fn leave(&self) -> Option<Reservation> {
        match self.end_wait() {
            SeatOutcome::Jobs(reservation) => Some(reservation),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat() -> Seat {
        Seat::new(Claim::new(1, 1000), true)
    }

    fn reservation() -> Reservation {
        Reservation {
            source: Source::new("default", "ns/q"),
            ticket: 1,
            jobs: vec![],
            lease: LeaseLength::Ms(1000),
            now_ms: 1,
        }
    }

    #[test]
    fn the_first_jobs_win_and_further_ones_are_returned() {
        let seat = seat();
        assert_eq!(seat.deliver(reservation()), Ok(()));
        assert_eq!(seat.deliver(reservation()), Err(reservation()));
        seat.fail();
        assert_eq!(seat.try_take(&[]), Some(SeatOutcome::Jobs(reservation())));
        assert_eq!(seat.deliver(reservation()), Err(reservation()));
    }

    #[test]
    fn leaving_a_seat_returns_its_jobs() {
        let seat = seat();
        assert_eq!(seat.deliver(reservation()), Ok(()));
        assert_eq!(seat.leave(), Some(reservation()));
        assert_eq!(seat.deliver(reservation()), Err(reservation()));
        assert_eq!(seat.leave(), None);
    }

    #[test]
    fn a_first_round_is_over_when_its_own_wait_queue_has_had_it() {
        let seat = seat();
        assert_eq!(seat.try_take(&[7]), None);
        seat.first_round_over(9, false);
        assert_eq!(seat.try_take(&[7]), None, "the round of another wait queue");
        seat.first_round_over(7, false);
        assert_eq!(seat.try_take(&[7]), Some(SeatOutcome::NothingYet));
        assert_eq!(seat.try_take(&[9, 8]), None);
        assert!(seat.is_waiting());
        assert!(!seat.has_failed_round());
        seat.first_round_over(8, true);
        assert!(seat.has_failed_round());
        assert!(seat.is_waiting(), "a failed round ends no wait");
        seat.close();
        assert!(!seat.has_failed_round());
        assert_eq!(seat.try_take(&[10]), Some(SeatOutcome::Closed));
        assert!(!seat.is_waiting());
    }

    #[tokio::test]
    async fn a_change_before_the_await_is_not_missed() {
        let seat = seat();
        seat.first_round_over(1, false);
        assert_eq!(seat.wait(&[1]).await, SeatOutcome::NothingYet);
        seat.fail();
        assert_eq!(seat.wait(&[2]).await, SeatOutcome::Failed);
    }
}
