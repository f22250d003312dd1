//! Reports of the serve loops of a pool to its retry task.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Reports of the serve loops of a pool to its retry task.
#[derive(Debug, Default)]
pub(super) struct RetrySignal {
    /// Wakes the retry task.
    changed: Notify,
    /// Whether a call has succeeded for a lane whose last call had failed.
    recovered: AtomicBool,
}

impl RetrySignal {
    /// Reports that a call failed.
    pub(super) fn failed(&self) {
        self.changed.notify_one();
    }

    /// Reports that a call succeeded for a lane whose last call had failed.
    pub(super) fn recovered(&self) {
        self.recovered.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Waits for a report.
    pub(super) async fn wait(&self) {
        self.changed.notified().await;
    }

    /// Whether a success was reported with [`Self::recovered`] since the last call of this method.
    pub(super) fn take_recovered(&self) -> bool {
        self.recovered.swap(false, Ordering::Relaxed)
    }
}
