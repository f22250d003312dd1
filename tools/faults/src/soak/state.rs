//! The state that all clients of a soak share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::deployment::SoakCredentials;
use super::job_stream::JobStream;
use super::tally::{LatenessTally, RequestTally};
use super::times::SoakTimes;
use crate::history::UnixMicros;

/// The shared state.
#[derive(Debug)]
pub(super) struct SoakState {
    pub(super) times: SoakTimes,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) credentials: SoakCredentials,
    pub(super) tally: RequestTally,
    jobs: Mutex<JobStream>,
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
            jobs: Mutex::new(JobStream::new(times.patience())),
            lateness: Mutex::new(LatenessTally::new(0, times.length)),
            ended: AtomicBool::new(false),
        }
    }

    pub(super) fn jobs(&self) -> MutexGuard<'_, JobStream> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Judges the jobs that have ended or are overdue, while clients continue.
    pub(super) fn judge(&self, now: UnixMicros) {
        let closed = self.jobs().take_closed(now);
        if let Some(closed) = closed {
            let findings = closed.judge();
            self.jobs().add_findings(findings);
        }
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
