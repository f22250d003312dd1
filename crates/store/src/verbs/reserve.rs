use std::time::Duration;

use bytes::{Buf, Bytes};
use tidegate_core::limits::DURATION_MS_MAX;
use tidegate_core::{Job, JobState, Lane, QueueKey};

use super::settle::LeasedJob;
use crate::bodies::{JobReadError, StoredRecord, carried_bytes};
use crate::call_metrics::CORRUPT;
use crate::cold_tier::postponement_ms;
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;
use crate::waiter_id::WaiterId;

/// Maximum number of list entries that one call reads: it blocks Redis for about 1 ms.
pub(super) const HINTS_PER_CALL: u64 = 256;

/// Calls of a reserve that may find jobs whose payloads cannot be read from the cold tier. In later calls the script
/// postpones all cold jobs, as it does while the object store fails: otherwise the others wait behind many damaged ones.
const COLD_CALLS_MAX: usize = 2;

/// The default of the length of leases, in ms.
const DEFAULT_LEASE_MS: u64 = 60_000;

static RESERVE: LazyScript = script!("reserve");

/// The request of one consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Maximum number of jobs.
    pub count: u16,
    /// Length of the leases.
    pub lease: LeaseLength,
}

impl Claim {
    /// Up to `count` jobs under leases of `lease_ms`.
    pub const fn new(count: u16, lease_ms: u64) -> Self {
        Self {
            count,
            lease: LeaseLength::Ms(lease_ms),
        }
    }
}

/// How long a lease is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseLength {
    /// This many ms.
    Ms(u64),
    /// As long as the job says, or if it does not this many ms.
    OfJobOrMs(u64),
    /// As long as the job says, or if it does not as the policy of its queue says. The engine replaces this; the store
    /// takes it for the default of policies.
    AsConfigured,
}

impl LeaseLength {
    /// The length of the lease of this job, in ms.
    pub fn of(self, job: &Job) -> u64 {
        let own = job.extension.as_ref().and_then(|options| options.lease_ms);
        match (self, own) {
            (Self::OfJobOrMs(_) | Self::AsConfigured, Some(own)) => own.into(),
            (Self::Ms(ms) | Self::OfJobOrMs(ms), _) => ms,
            (Self::AsConfigured, None) => DEFAULT_LEASE_MS,
        }
    }

    /// The argument of the script.
    fn argument(self) -> i64 {
        let bounded = |ms: u64| i64::try_from(ms.min(DURATION_MS_MAX)).unwrap_or(i64::MAX);
        match self {
            Self::Ms(ms) => bounded(ms),
            Self::OfJobOrMs(ms) => -bounded(ms.max(1)),
            Self::AsConfigured => Self::OfJobOrMs(DEFAULT_LEASE_MS).argument(),
        }
    }
}

/// The work of a reserve call besides serving its claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReserveOptions {
    /// Whether the process is registered as waiting for the lane if a claim is not filled. Its next jobs then ring one
    /// of the processes that are registered ([`Store::doorbells`]).
    pub registers: bool,
    /// The number of jobs of the lane that may be leased at a time, in all processes together; `None` = not limited.
    /// Leases that exceed it already stay. Once leases end, one of the registered processes is rung.
    pub max_running: Option<u64>,
    /// The same of each group of jobs of the lane.
    pub group_max_running: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservedJobs {
    /// The jobs of each claim, in the order of the claims.
    pub jobs: Vec<Vec<Job>>,
    /// The time on the clock of Redis, in ms since 1970.
    pub now_ms: u64,
    /// Whether the lane has no more jobs that may be leased, and the process is registered: a doorbell follows when it
    /// has some.
    pub is_registered: bool,
}

/// What one call does besides leasing jobs.
struct ReserveCall {
    options: ReserveOptions,
    /// After how many ms cold jobs are due again; `None` = they are leased.
    postponement_ms: Option<u64>,
}

/// The jobs that one call has reserved.
struct ReservedOnce {
    /// Whether to call again.
    has_more: bool,
    /// Whether a payload could not be read from the cold tier.
    has_unavailable: bool,
    is_registered: bool,
    now_ms: u64,
    /// In the order of the claims; `None` = deleted or given back in between, or leased but corrupt.
    jobs: Vec<Option<Job>>,
}

/// A job in the reply of the script.
struct LeasedRecord {
    record: Bytes,
    number: u64,
    /// Its former due time.
    run_at_ms: u64,
}

impl LeasedRecord {
    /// Bytes of a number behind the record.
    const NUMBER_BYTES: usize = 6;

    fn split(mut text: Bytes) -> Result<Self, StoreError> {
        let Some(record_bytes) = text.len().checked_sub(2 * Self::NUMBER_BYTES) else {
            return Err(StoreError::corrupt(
                "script returned a job without its number",
            ));
        };
        let mut numbers = text.split_off(record_bytes);
        Ok(Self {
            record: text,
            number: numbers.get_uint(Self::NUMBER_BYTES),
            run_at_ms: numbers.get_uint(Self::NUMBER_BYTES),
        })
    }
}

impl Store {
    /// Leases the oldest live jobs of a lane. Claims are served in order, each until it has its count or the lane is
    /// empty. Expired jobs and stale hints are skipped, so an empty result means that the lane is empty.
    ///
    /// A job whose record cannot be decoded is skipped and logged. It is never delivered; it stays leased, and is dead
    /// after its last try.
    ///
    /// # Errors
    /// Redis is unavailable. Jobs that were leased already are released, which gives their tries back. If that fails
    /// too, they are ready again when their leases expire.
    pub async fn reserve<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
        claims: &[Claim],
    ) -> Result<ReservedJobs, StoreError> {
        let options = ReserveOptions::default();
        self.reserve_with(lane, claims, options).await
    }

    /// The same as [`Self::reserve`], with options. With a limit of running jobs claims may stay open although the lane
    /// has ready jobs.
    ///
    /// # Errors
    /// The errors of [`Self::reserve`].
    pub async fn reserve_with<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
        claims: &[Claim],
        options: ReserveOptions,
    ) -> Result<ReservedJobs, StoreError> {
        let lane = lane.into();
        let mut leases = Vec::new();
        let reserved = self.reserve_all(options, lane, claims, &mut leases).await;
        if let Err(StoreError::Unavailable { .. }) = reserved {
            leases.reverse();
            // If this fails, the jobs are ready again when their leases expire.
            let _ = self.release_all(lane.queue, &leases, 0).await;
        }
        reserved
    }

    /// Adds each delivery to `leases`, also if a later step fails.
    async fn reserve_all(
        &self,
        options: ReserveOptions,
        lane: Lane<'_>,
        claims: &[Claim],
        leases: &mut Vec<LeasedJob>,
    ) -> Result<ReservedJobs, StoreError> {
        let mut open: Vec<Claim> = claims.to_vec();
        let mut jobs: Vec<Vec<Job>> = vec![Vec::new(); claims.len()];
        let mut cold_calls = 0;
        loop {
            let postponement_ms = match cold_calls < COLD_CALLS_MAX {
                true => self.cold_postponement_ms(),
                false => Some(postponement_ms(Duration::ZERO)),
            };
            let call = ReserveCall {
                options,
                postponement_ms,
            };
            let mut once = self.reserve_once(call, lane, &open, leases).await?;
            cold_calls += usize::from(once.has_unavailable);
            let mut found = once.jobs.into_iter();
            for (claim, jobs) in open.iter_mut().zip(&mut jobs) {
                jobs.reserve_exact(found.len().min(claim.count.into()));
                for job in found.by_ref().take(claim.count.into()) {
                    // Instead of a deleted or corrupt job another job is reserved.
                    let Some(job) = job else {
                        once.has_more = true;
                        continue;
                    };
                    jobs.push(job);
                    claim.count -= 1;
                }
            }
            if !once.has_more {
                return Ok(ReservedJobs {
                    jobs,
                    now_ms: once.now_ms,
                    is_registered: once.is_registered,
                });
            }
        }
    }

    /// Gives back jobs whose payloads cannot be read from the cold tier now. They are due again a little later. Returns
    /// whether there are any.
    async fn release_unavailable(
        &self,
        queue: &QueueKey,
        leases: &[LeasedJob],
        read: &[Result<Job, JobReadError>],
    ) -> Result<bool, StoreError> {
        let mut unavailable = Vec::new();
        let pause_ms = self.cold_postponement_ms();
        let pause_ms = pause_ms.unwrap_or_else(|| postponement_ms(Duration::ZERO));
        for (lease, read) in leases.iter().zip(read) {
            if let Err(JobReadError::Unavailable(why)) = read {
                tracing::error!(%why, %queue, "failed to read a payload from the cold tier; the job is due again in {pause_ms} ms");
                unavailable.push(*lease);
            }
        }
        if !unavailable.is_empty() {
            self.release_all(queue, &unavailable, pause_ms).await?;
        }
        Ok(!unavailable.is_empty())
    }

    /// Makes one call.
    async fn reserve_once(
        &self,
        ReserveCall {
            options,
            postponement_ms,
        }: ReserveCall,
        lane: Lane<'_>,
        claims: &[Claim],
        leases: &mut Vec<LeasedJob>,
    ) -> Result<ReservedOnce, StoreError> {
        let Lane { queue, .. } = lane;
        let bucket = self.bucket_of(lane);
        let wanted = claims.iter().map(|claim| usize::from(claim.count)).sum();
        let call = self.call_on_queue(&RESERVE, queue, bucket);
        let call = call.arg(HINTS_PER_CALL).arg(carried_bytes(wanted));
        let call = call.arg(self.call_deadline(self.keys(bucket).prefix()));
        let waiter = options.registers.then_some(&self.inner.waiter);
        let call = call.arg(waiter.map_or("", WaiterId::as_str));
        let limits = [options.max_running, options.group_max_running];
        let call = limits.into_iter().fold(call, |call, limit| match limit {
            Some(jobs) => call.arg(jobs),
            None => call.arg(""),
        });
        let call = match postponement_ms {
            Some(ms) => call.arg(ms),
            None => call.arg(""),
        };
        let call = claims.iter().fold(call, |call, claim| {
            call.arg(claim.count).arg(claim.lease.argument())
        });
        let (mut reply, written) = call.send_tracked().await?;
        let is_late = reply.token() == "late";
        let now_ms = reply.count()?;
        written.note_clock(now_ms);
        if is_late {
            // The clock of Redis was set forward. The next call uses the time in this reply.
            return Ok(ReservedOnce {
                has_more: true,
                has_unavailable: false,
                is_registered: false,
                now_ms,
                jobs: Vec::new(),
            });
        }
        reply = reply.ok()?;
        let (has_more, is_registered) = (reply.flag()?, reply.flag()?);
        let count = reply.left();
        let mut records = Vec::with_capacity(count);
        let mut made = Vec::with_capacity(count);
        leases.reserve(count);
        while reply.has_more() {
            let LeasedRecord {
                record,
                number,
                run_at_ms,
            } = LeasedRecord::split(reply.bytes()?)?;
            let record = StoredRecord::read(bucket, number, record)?;
            let attempt = record.header().attempt;
            leases.push(LeasedJob {
                id: record.id,
                attempt,
            });
            records.push(record);
            made.push((attempt, run_at_ms));
        }
        let read = self.fetch_bodies(queue, records).await?;
        let made_now = &leases[leases.len() - read.len()..];
        let has_unavailable = self.release_unavailable(queue, made_now, &read).await?;
        let jobs = read.into_iter().zip(made);
        Ok(ReservedOnce {
            has_more,
            has_unavailable,
            is_registered,
            now_ms,
            jobs: jobs
                .map(|(job, made)| delivered(queue, job, made))
                .collect(),
        })
    }
}

/// The job of a delivery with this attempt, which runs at this time; `None` if there is nothing to deliver.
fn delivered(
    queue: &QueueKey,
    job: Result<Job, JobReadError>,
    (attempt, run_at_ms): (u32, u64),
) -> Option<Job> {
    match job {
        Ok(job) if (job.state, job.attempt) == (JobState::Leased, attempt) => {
            Some(Job { run_at_ms, ..job })
        }
        // Its lease ended, it was deleted before its body was fetched, or it was given back.
        Ok(_) | Err(JobReadError::Gone | JobReadError::Unavailable(_)) => None,
        Err(JobReadError::Corrupt(error)) => {
            tracing::error!(%error, %queue, "failed to decode a job, it is not delivered: run `tidegate-pumpd audit`");
            CORRUPT.inc();
            None
        }
    }
}
