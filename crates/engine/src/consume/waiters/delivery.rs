//! Reserved jobs on their way to the client.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Job, QueueKey};
use tidegate_store::{LeaseLength, LeasedJob};

use super::seat::Reservation;
use super::shared::Shared;
use super::source::Source;

/// The reserved jobs of one consume, at least one. Jobs that are not handed to the connection are released when this is
/// dropped, without using up an attempt.
#[derive(Debug)]
pub struct Delivery {
    parts: Vec<DeliveryPart>,
}

#[derive(Debug)]
pub struct ReservedJob<'a> {
    pub queue: &'a QueueKey,
    pub job: &'a Job,
    /// The start of its lease by the clock of Redis, in ms since the Unix epoch.
    pub leased_at_ms: u64,
}

/// The jobs of one queue in a delivery.
#[derive(Debug)]
struct DeliveryPart {
    jobs: Vec<Job>,
    /// The length of their leases.
    lease: LeaseLength,
    guard: ReleaseGuard,
}

impl DeliveryPart {
    /// The start of the lease of a job. It is derived from the end of the lease: the jobs may have been reserved by
    /// several calls, and `now_ms` is the time of the last call. Leases count from the end of the millisecond in which
    /// they begin.
    fn leased_at_ms(&self, job: &Job) -> u64 {
        job.due_at_ms.saturating_sub(self.lease.of(job) + 1)
    }
}

impl Delivery {
    pub(super) fn new(shared: Arc<Shared>, reservation: Reservation) -> Self {
        let guard = ReleaseGuard {
            shared,
            now_ms: reservation.now_ms,
            leased: reservation.leased(),
            source: reservation.source,
        };
        Self {
            parts: vec![DeliveryPart {
                jobs: reservation.jobs,
                lease: reservation.lease,
                guard,
            }],
        }
    }

    /// Adds the jobs of another delivery at the end.
    pub(super) fn append(&mut self, more: Self) {
        self.parts.extend(more.parts);
    }

    /// The source of the first jobs.
    pub(super) fn source(&self) -> &Source {
        &self.parts[0].guard.source
    }

    /// The number of jobs.
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.jobs.len()).sum()
    }

    /// The clock of Redis when the last jobs were reserved, in ms since the Unix epoch.
    pub fn now_ms(&self) -> u64 {
        let parts = self.parts.iter();
        parts
            .map(|part| part.guard.now_ms)
            .max()
            .unwrap_or_default()
    }

    /// The total length of the bodies, in bytes.
    pub fn body_bytes(&self) -> usize {
        self.jobs().map(|reserved| reserved.job.body.len()).sum()
    }

    /// Keeps the first `count` jobs and releases the others.
    pub fn truncate(&mut self, count: usize) {
        let mut left = count;
        for DeliveryPart { jobs, guard, .. } in &mut self.parts {
            let kept = left.min(jobs.len());
            jobs.truncate(kept);
            guard.release_from(kept);
            left -= kept;
        }
    }

    /// The jobs, in the order in which they were reserved.
    pub fn jobs(&self) -> impl Iterator<Item = ReservedJob<'_>> {
        self.parts.iter().flat_map(|part| {
            let reserved = |job| ReservedJob {
                queue: &part.guard.source.queue,
                job,
                leased_at_ms: part.leased_at_ms(job),
            };
            part.jobs.iter().map(reserved)
        })
    }

    /// Drops the contents of the jobs, once the answer that shows them is complete.
    #[must_use]
    pub fn shown(mut self) -> Delivered {
        for part in &mut self.parts {
            part.jobs = Vec::new();
        }
        Delivered(self.parts)
    }
}

/// The jobs of a complete answer. Dropping this releases them, without using up an attempt, unless
/// [`Self::arrived`] was called.
#[derive(Debug)]
pub struct Delivered(Vec<DeliveryPart>);

impl Delivered {
    /// Counts the jobs as delivered. Must be called when the connection has taken the answer for writing.
    pub fn arrived(&mut self) {
        self.0.iter_mut().for_each(|part| part.guard.arrived());
    }
}

/// Jobs of one source that are released when this is dropped, unless they were delivered.
#[derive(Debug)]
struct ReleaseGuard {
    shared: Arc<Shared>,
    source: Source,
    leased: Vec<LeasedJob>,
    /// The clock of Redis when the last of them was reserved, in ms since the Unix epoch.
    now_ms: u64,
}

impl ReleaseGuard {
    fn arrived(&mut self) {
        let delivered = std::mem::take(&mut self.leased);
        let ages = delivered.iter().map(|job| {
            let age_ms = self.now_ms.saturating_sub(job.id.created_at_ms());
            Duration::from_millis(age_ms)
        });
        if let Some(state) = self.shared.pools.get(&self.source.pool) {
            state.pool.metrics.delivered(&self.source.queue, ages);
        }
    }

    fn release_from(&mut self, kept: usize) {
        if kept >= self.leased.len() {
            return;
        }
        let leased = self.leased.split_off(kept);
        self.shared.release(self.source.clone(), None, leased);
    }
}

impl Drop for ReleaseGuard {
    fn drop(&mut self) {
        self.release_from(0);
    }
}
