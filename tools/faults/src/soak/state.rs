//! What all clients of a soak share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::job_judge::JobJudge;
use super::tally::{LatenessTally, RequestTally};
use super::times::SoakTimes;
use super::wire::SoakCredentials;

/// The shared state.
#[derive(Debug)]
pub(super) struct SoakState {
    pub(super) times: SoakTimes,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) credentials: SoakCredentials,
    pub(super) tally: RequestTally,
    judge: Mutex<JobJudge>,
    lateness: Mutex<LatenessTally>,
    ended: AtomicBool,
}

impl SoakState {
    pub(super) fn new(
        times: SoakTimes,
        addresses: Vec<SocketAddr>,
        credentials: SoakCredentials,
    ) -> Self {
        Self {
            times,
            addresses,
            credentials,
            tally: RequestTally::default(),
            judge: Mutex::new(JobJudge::new(times.patience())),
            lateness: Mutex::new(LatenessTally::new(0, times.length)),
            ended: AtomicBool::new(false),
        }
    }

    pub(super) fn judge(&self) -> MutexGuard<'_, JobJudge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lateness(&self) -> MutexGuard<'_, LatenessTally> {
        self.lateness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the consumers should end.
    pub(super) fn is_over(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}
