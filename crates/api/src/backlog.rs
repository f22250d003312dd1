//! How much may wait for a Redis: the jobs of publishes that are not stored yet.
//!
//! Without a bound, clients that send their publishes again while Redis is unavailable would fill the memory
//! of the process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};

use crate::size::Size;

const JOBS: &str = "tidegate_publish_backlog_jobs";
const BYTES: &str = "tidegate_publish_backlog_bytes";
const REJECTED: &str = "tidegate_publishes_rejected_total";

/// Describes the metrics, once per process.
pub(crate) fn describe() {
    describe_gauge!(
        JOBS,
        "Number of jobs that wait to be stored, or are in a call that stores them."
    );
    describe_gauge!(
        BYTES,
        "Size of the bodies and attributes of these jobs, in bytes."
    );
    describe_counter!(
        REJECTED,
        "Number of publishes rejected because too many jobs were waiting to be stored."
    );
}

/// The backlog of a pool is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many jobs wait to be stored")]
pub(crate) struct BacklogFull;

/// The jobs that wait to be stored in one deployment.
#[derive(Debug)]
pub(crate) struct Backlog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    max: Size,
    taken: Mutex<Size>,
    jobs: Gauge,
    bytes: Gauge,
    rejected: Counter,
}

/// Room in a backlog. Dropping it frees the room.
#[derive(Debug)]
pub(crate) struct Room {
    inner: Arc<Inner>,
    size: Size,
}

impl Backlog {
    /// A backlog of at most `max` for the pool of this name.
    pub(crate) fn new(pool: &str, max: Size) -> Self {
        let rejected = counter!(REJECTED, "pool" => pool.to_owned());
        rejected.increment(0);
        let inner = Inner {
            max,
            taken: Mutex::default(),
            jobs: gauge!(JOBS, "pool" => pool.to_owned()),
            bytes: gauge!(BYTES, "pool" => pool.to_owned()),
            rejected,
        };
        inner.show(Size::default());
        Self(Arc::new(inner))
    }

    /// Takes room for a publish. One that is larger than the whole backlog has room where nothing else is.
    ///
    /// # Errors
    /// There is not enough room.
    pub(crate) fn take(&self, size: Size) -> Result<Room, BacklogFull> {
        let inner = &self.0;
        let mut taken = inner.lock();
        let mut after = *taken;
        after += size;
        if taken.jobs > 0 && after.exceeds(inner.max) {
            drop(taken);
            inner.rejected.increment(1);
            return Err(BacklogFull);
        }
        *taken = after;
        inner.show(after);
        Ok(Room {
            inner: Arc::clone(inner),
            size,
        })
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Size> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called under the lock, so that the last value is the one that is shown.
    fn show(&self, taken: Size) {
        self.jobs.set(taken.jobs as f64);
        self.bytes.set(taken.bytes as f64);
    }
}

impl Room {
    /// How much room it is.
    pub(crate) const fn size(&self) -> Size {
        self.size
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut taken = self.inner.lock();
        *taken -= self.size;
        self.inner.show(*taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(jobs: usize, bytes: usize) -> Size {
        Size { jobs, bytes }
    }

    #[test]
    fn jobs_and_bytes_are_bounded_and_room_comes_back() {
        let backlog = Backlog::new("p", size(3, 100));
        let first = backlog.take(size(2, 10)).unwrap();
        assert_eq!(backlog.take(size(2, 10)).unwrap_err(), BacklogFull);
        assert_eq!(backlog.take(size(1, 91)).unwrap_err(), BacklogFull);
        let second = backlog.take(size(1, 90)).unwrap();
        assert_eq!(*backlog.0.lock(), size(3, 100));
        drop(first);
        assert_eq!(backlog.take(size(1, 11)).unwrap_err(), BacklogFull);
        drop(second);
        assert_eq!(*backlog.0.lock(), Size::default());
    }

    #[test]
    fn a_publish_larger_than_the_backlog_has_room_alone() {
        let backlog = Backlog::new("p", size(3, 100));
        let large = backlog.take(size(64, 1000)).unwrap();
        assert_eq!(backlog.take(size(1, 0)).unwrap_err(), BacklogFull);
        drop(large);
        let _small = backlog.take(size(1, 0)).unwrap();
        assert_eq!(backlog.take(size(64, 1000)).unwrap_err(), BacklogFull);
    }
}
