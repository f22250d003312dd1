//! Bounds the jobs that wait to be stored in a Redis deployment (`requests.backlog_jobs_max`,
//! `requests.backlog_bytes_max`).
//!
//! Without a bound, clients that retry their publishes while Redis is unavailable would exhaust the memory of the
//! process.

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use tidegate_daemon::metrics::{counters, gauges};

use crate::error::EngineError;
use crate::publish::size::PublishSize;

static JOBS: LazyLock<IntGaugeVec> = LazyLock::new(|| {
    gauges(
        "tidegate_publish_backlog_jobs",
        "Number of jobs that wait to be stored, or are in a call that stores them.",
        &["pool"],
    )
});
static BYTES: LazyLock<IntGaugeVec> = LazyLock::new(|| {
    gauges(
        "tidegate_publish_backlog_bytes",
        "Size of the bodies and attributes of jobs that wait to be stored, or are in a call that stores them, in bytes.",
        &["pool"],
    )
});
static REJECTED: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_publishes_rejected_total",
        "Number of publishes rejected because too many jobs were waiting to be stored.",
        &["pool"],
    )
});

/// Counts the jobs that wait to be stored in one deployment, and their bytes.
#[derive(Debug)]
pub(crate) struct PublishBacklog(Arc<BacklogInner>);

#[derive(Debug)]
struct BacklogInner {
    max: PublishSize,
    taken: Mutex<PublishSize>,
    jobs: IntGauge,
    bytes: IntGauge,
    rejected: IntCounter,
}

/// Room in a backlog. Dropping it frees the room.
#[derive(Debug)]
pub(crate) struct BacklogPermit {
    inner: Arc<BacklogInner>,
    size: PublishSize,
}

impl PublishBacklog {
    /// A backlog of at most `max` for the pool of this name.
    pub(crate) fn new(pool: &str, max: PublishSize) -> Self {
        let inner = BacklogInner {
            max,
            taken: Mutex::default(),
            jobs: JOBS.with_label_values(&[pool]),
            bytes: BYTES.with_label_values(&[pool]),
            rejected: REJECTED.with_label_values(&[pool]),
        };
        inner.set_gauges(PublishSize::default());
        Self(Arc::new(inner))
    }

    /// Takes room for a publish. A publish that is larger than the whole backlog is accepted while nothing else waits.
    ///
    /// # Errors
    /// There is not enough room.
    pub(crate) fn take(&self, size: PublishSize) -> Result<BacklogPermit, EngineError> {
        let inner = &self.0;
        let mut taken = inner.taken.lock();
        let mut after = *taken;
        after += size;
        if taken.jobs > 0 && after.exceeds(inner.max) {
            drop(taken);
            inner.rejected.inc();
            return Err(EngineError::BacklogFull);
        }
        *taken = after;
        inner.set_gauges(after);
        Ok(BacklogPermit {
            inner: Arc::clone(inner),
            size,
        })
    }
}

impl BacklogInner {
    /// Sets the gauges. Must be called under the lock: otherwise an older value could overwrite a newer one.
    fn set_gauges(&self, taken: PublishSize) {
        self.jobs.set(taken.jobs as i64);
        self.bytes.set(taken.bytes as i64);
    }
}

impl BacklogPermit {
    /// The jobs and bytes that it holds.
    pub(crate) const fn size(&self) -> PublishSize {
        self.size
    }
}

impl Drop for BacklogPermit {
    fn drop(&mut self) {
        let mut taken = self.inner.taken.lock();
        *taken -= self.size;
        self.inner.set_gauges(*taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(jobs: usize, bytes: usize) -> PublishSize {
        PublishSize { jobs, bytes }
    }

    #[test]
    fn jobs_and_bytes_are_bounded_and_room_comes_back() {
        let backlog = PublishBacklog::new("p", size(3, 100));
        let first = backlog.take(size(2, 10)).unwrap();
        assert_eq!(
            backlog.take(size(2, 10)).unwrap_err(),
            EngineError::BacklogFull
        );
        assert_eq!(
            backlog.take(size(1, 91)).unwrap_err(),
            EngineError::BacklogFull
        );
        let second = backlog.take(size(1, 90)).unwrap();
        assert_eq!(*backlog.0.taken.lock(), size(3, 100));
        drop(first);
        assert_eq!(
            backlog.take(size(1, 11)).unwrap_err(),
            EngineError::BacklogFull
        );
        drop(second);
        assert_eq!(*backlog.0.taken.lock(), PublishSize::default());
    }

    #[test]
    fn a_publish_larger_than_the_backlog_has_room_alone() {
        let backlog = PublishBacklog::new("p", size(3, 100));
        let large = backlog.take(size(64, 1000)).unwrap();
        assert_eq!(
            backlog.take(size(1, 0)).unwrap_err(),
            EngineError::BacklogFull
        );
        drop(large);
        let _small = backlog.take(size(1, 0)).unwrap();
        assert_eq!(
            backlog.take(size(64, 1000)).unwrap_err(),
            EngineError::BacklogFull
        );
    }
}
