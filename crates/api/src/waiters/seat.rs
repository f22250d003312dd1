//! The place where a consumer waits and where jobs are put down for it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Job, JobId};
use tidegate_store::Claim;
use tokio::sync::Notify;

use super::Source;

/// Jobs of one queue that were reserved for one claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Haul {
    pub(super) source: Source,
    pub(super) jobs: Vec<Job>,
    /// The length of their leases, in ms.
    pub(super) ttr_ms: u64,
    /// The clock of Redis when the last of them was reserved, in ms.
    pub(super) now_ms: u64,
}

impl Haul {
    /// Takes the jobs behind the first `count` away, if there are any.
    pub(super) fn split_off(&mut self, count: usize) -> Option<Self> {
        if self.jobs.len() <= count {
            return None;
        }
        Some(Self {
            source: self.source.clone(),
            jobs: self.jobs.split_off(count),
            ttr_ms: self.ttr_ms,
            now_ms: self.now_ms,
        })
    }

    /// What it takes to give the jobs back.
    pub(super) fn slips(&self) -> Vec<(JobId, u32)> {
        self.jobs.iter().map(|job| (job.id, job.attempt)).collect()
    }
}

/// What a consumer finds at its seat.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Jobs; the seat is left.
    Jobs(Haul),
    /// The first rounds that were waited for are over and none of them found anything.
    NothingYet,
    /// The serve loop ended unexpectedly; the seat is left.
    Failed,
    /// The lines are closed; the seat is left.
    Closed,
}

/// One seat. A consumer has one, in however many lines it stands.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) claim: Claim,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
enum State {
    /// The lines that the seat entered with the tickets `over` have had their first round for it, in vain. In one
    /// of them a call failed if `failed`.
    Waiting {
        over: Vec<u64>,
        failed: bool,
    },
    Holding(Haul),
    Failed,
    Closed,
    Left,
}

impl Seat {
    pub(super) fn new(claim: Claim) -> Self {
        Self {
            claim,
            state: Mutex::new(State::Waiting {
                over: Vec::new(),
                failed: false,
            }),
            changed: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether jobs would be welcome.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(*self.lock(), State::Waiting { .. })
    }

    /// Whether it waits, and a call of the first round of a line failed.
    pub(super) fn has_failed_round(&self) -> bool {
        matches!(*self.lock(), State::Waiting { failed: true, .. })
    }

    /// Puts jobs down; they come back if nobody waits here any more.
    pub(super) fn put(&self, haul: Haul) -> Result<(), Haul> {
        let mut state = self.lock();
        if !matches!(*state, State::Waiting { .. }) {
            return Err(haul);
        }
        *state = State::Holding(haul);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// The first round of a line since the seat entered it with this ticket is over and found nothing.
    /// `has_failed`: a call of it failed.
    pub(super) fn round_over(&self, ticket: u64, has_failed: bool) {
        if let State::Waiting { over, failed } = &mut *self.lock() {
            over.push(ticket);
            *failed |= has_failed;
        }
        self.changed.notify_one();
    }

    /// The serve loop ended unexpectedly.
    pub(super) fn fail(&self) {
        self.end(State::Failed);
    }

    /// There will be no more rounds.
    pub(super) fn close(&self) {
        self.end(State::Closed);
    }

    fn end(&self, end: State) {
        let mut state = self.lock();
        if matches!(*state, State::Waiting { .. }) {
            *state = end;
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Waits until something happened or the first rounds of the lines with these tickets are over.
    pub(super) async fn news(&self, tickets: &[u64]) -> News {
        loop {
            if let Some(news) = self.look(tickets) {
                return news;
            }
            // A change between the look and this wait has left a permit.
            self.changed.notified().await;
        }
    }

    /// Waits until it waits for jobs no longer.
    pub(super) async fn outcome(&self) {
        while self.is_waiting() {
            self.changed.notified().await;
        }
    }

    /// Takes what is there. `None` if nothing is, and one of the first rounds is not over.
    pub(super) fn look(&self, tickets: &[u64]) -> Option<News> {
        let mut state = self.lock();
        if let State::Waiting { over, .. } = &*state {
            let all_over = tickets.iter().all(|ticket| over.contains(ticket));
            return all_over.then_some(News::NothingYet);
        }
        match std::mem::replace(&mut *state, State::Left) {
            State::Holding(haul) => Some(News::Jobs(haul)),
            State::Failed => Some(News::Failed),
            State::Closed | State::Left | State::Waiting { .. } => Some(News::Closed),
        }
    }

    /// Gives the seat up; jobs that lie there are handed over.
    pub(super) fn leave(&self) -> Option<Haul> {
        match std::mem::replace(&mut *self.lock(), State::Left) {
            State::Holding(haul) => Some(haul),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat() -> Seat {
        Seat::new(Claim {
            count: 1,
            ttr_ms: 1000,
        })
    }

    fn haul() -> Haul {
        Haul {
            source: Source::new("default", "ns/q"),
            jobs: vec![],
            ttr_ms: 1000,
            now_ms: 1,
        }
    }

    #[test]
    fn the_first_jobs_win_and_the_others_come_back() {
        let seat = seat();
        assert_eq!(seat.put(haul()), Ok(()));
        assert_eq!(seat.put(haul()), Err(haul()));
        seat.fail();
        assert_eq!(seat.look(&[]), Some(News::Jobs(haul())));
        assert_eq!(seat.put(haul()), Err(haul()));
    }

    #[test]
    fn jobs_at_an_abandoned_seat_are_handed_over() {
        let seat = seat();
        assert_eq!(seat.put(haul()), Ok(()));
        assert_eq!(seat.leave(), Some(haul()));
        assert_eq!(seat.put(haul()), Err(haul()));
        assert_eq!(seat.leave(), None);
    }

    #[test]
    fn a_first_round_is_over_when_its_own_line_has_had_it() {
        let seat = seat();
        assert_eq!(seat.look(&[7]), None);
        seat.round_over(9, false);
        assert_eq!(seat.look(&[7]), None, "the round of another line");
        seat.round_over(7, false);
        assert_eq!(seat.look(&[7]), Some(News::NothingYet));
        assert_eq!(seat.look(&[9, 8]), None);
        assert!(seat.is_waiting());
        assert!(!seat.has_failed_round());
        seat.round_over(8, true);
        assert!(seat.has_failed_round());
        assert!(seat.is_waiting(), "a failed round ends no wait");
        seat.close();
        assert!(!seat.has_failed_round());
        assert_eq!(seat.look(&[10]), Some(News::Closed));
        assert!(!seat.is_waiting());
    }

    #[tokio::test]
    async fn a_change_before_the_wait_is_not_missed() {
        let seat = seat();
        seat.round_over(1, false);
        assert_eq!(seat.news(&[1]).await, News::NothingYet);
        seat.fail();
        assert_eq!(seat.news(&[2]).await, News::Failed);
    }
}
