//! The leases that a worker holds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::job::{CancelReason, Job};

/// How often the table is looked into: the fastest and the slowest.
const TICK_MIN: Duration = Duration::from_millis(10);
const TICK_MAX: Duration = Duration::from_secs(1);
/// A lease is extended after a third of it. Looking twice as often bounds how late that is.
const TICKS_PER_LEASE: u32 = 6;

/// A job that this worker holds, and whose handler runs.
#[derive(Debug, Clone)]
pub(super) struct HeldLease {
    pub(super) job: Job,
    pub(super) length: Duration,
    pub(super) expires: Instant,
    /// When it was granted or last extended.
    extended: Instant,
    /// After that it is not extended any more.
    extend_until: Option<Instant>,
}

impl HeldLease {
    pub(super) fn new(job: Job, length: Duration) -> Self {
        let now = Instant::now();
        Self {
            job,
            length,
            expires: now + length,
            extended: now,
            extend_until: None,
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        let is_running_too_long = self.extend_until.is_some_and(|until| now >= until);
        now.duration_since(self.extended) >= self.length / 3 && !is_running_too_long
    }
}

/// The jobs that the worker holds: their handlers run, or they wait for a slot. The task that removes a job from the
/// table reports its end, so it is reported once.
#[derive(Debug)]
pub(super) struct LeaseTable {
    held: Mutex<HashMap<u64, HeldLease>>,
    next: AtomicU64,
    /// The length of the shortest lease ever held, in ms.
    shortest_ms: AtomicU64,
    shortened: Notify,
}

impl LeaseTable {
    pub(super) fn new() -> Self {
        Self {
            held: Mutex::default(),
            next: AtomicU64::new(0),
            shortest_ms: AtomicU64::new(u64::MAX),
            shortened: Notify::new(),
        }
    }

    /// Adds a job, and returns its number in the table.
    pub(super) fn insert(&self, lease: HeldLease) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let ms = u64::try_from(lease.length.as_millis()).unwrap_or(u64::MAX);
        self.held.lock().insert(number, lease);
        if self.shortest_ms.fetch_min(ms, Ordering::Relaxed) > ms {
            self.shortened.notify_one();
        }
        number
    }

    pub(super) fn remove(&self, number: u64) -> Option<HeldLease> {
        self.held.lock().remove(&number)
    }

    /// Removes all jobs.
    pub(super) fn drain(&self) -> Vec<HeldLease> {
        self.held.lock().drain().map(|(_, lease)| lease).collect()
    }

    /// Waits until it is time to look for leases to extend.
    pub(super) async fn tick(&self) {
        let shortest = Duration::from_millis(self.shortest_ms.load(Ordering::Relaxed));
        let tick = (shortest / TICKS_PER_LEASE).clamp(TICK_MIN, TICK_MAX);
        tokio::select! {
            () = tokio::time::sleep(tick) => {}
            () = self.shortened.notified() => {}
        }
    }

    /// The leases to extend now. Cancels the jobs whose leases have expired.
    pub(super) fn due(&self, now: Instant) -> Vec<(u64, HeldLease)> {
        let held = self.held.lock();
        for lease in held.values().filter(|lease| lease.expires <= now) {
            lease.job.cancel(CancelReason::LeaseLost);
        }
        let due = held.iter().filter(|(_, lease)| lease.is_due(now));
        due.map(|(number, lease)| (*number, lease.clone()))
            .collect()
    }

    /// The handler of a job starts. Its lease is extended for `max_run` from now on, or as long as it runs. Returns
    /// whether the job is still held.
    pub(super) fn start(&self, number: u64, max_run: Option<Duration>) -> bool {
        let mut held = self.held.lock();
        let Some(lease) = held
            .get_mut(&number)
            .filter(|lease| lease.expires > Instant::now())
        else {
            return false;
        };
        lease.extend_until = max_run.and_then(|limit| Instant::now().checked_add(limit));
        true
    }

    /// A lease was extended by a request that was sent then.
    pub(super) fn extended(&self, number: u64, sent: Instant) {
        if let Some(lease) = self.held.lock().get_mut(&number) {
            lease.extended = sent;
            lease.expires = sent + lease.length;
        }
    }

    /// A lease is lost: the result of the handler has no effect.
    pub(super) fn lost(&self, number: u64) {
        if let Some(lease) = self.remove(number) {
            lease.job.cancel(CancelReason::LeaseLost);
        }
    }
}
