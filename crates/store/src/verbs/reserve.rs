use tidegate_core::{DURATION_MS_MAX, Job, JobId, Lane};

use crate::bodies::{JobReadError, StoredRecord, carried_bytes};
use crate::call_metrics::CORRUPT;
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

/// Maximum number of list entries that one call reads: it blocks Redis for about 1 ms.
pub(super) const HINTS_PER_CALL: u64 = 256;

static RESERVE: LazyScript = script!("reserve");

/// The request of one consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Maximum number of jobs.
    pub count: u16,
    /// Length of the lease, in ms.
    pub ttr_ms: u64,
}

/// Reserved jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservedJobs {
    /// The jobs of each claim, in the order of the claims.
    pub jobs: Vec<Vec<Job>>,
    /// The time on the clock of Redis, in ms since 1970.
    pub now_ms: u64,
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
        let lane = lane.into();
        let mut leases = Vec::new();
        let reserved = self.reserve_all(lane, claims, &mut leases).await;
        if let Err(StoreError::Unavailable { .. }) = reserved {
            leases.reverse();
            // If this fails, the jobs are ready again when their leases expire.
            let _ = self.release_all(lane.queue, &leases).await;
        }
        reserved
    }

    /// Adds each delivery to `leases`, also if a later step fails.
    async fn reserve_all(
        &self,
        lane: Lane<'_>,
        claims: &[Claim],
        leases: &mut Vec<(JobId, u32)>,
    ) -> Result<ReservedJobs, StoreError> {
        let mut open: Vec<Claim> = claims.to_vec();
        let mut jobs: Vec<Vec<Job>> = vec![Vec::new(); claims.len()];
        loop {
            let (mut more, now_ms, found) = self.reserve_once(lane, &open, leases).await?;
            let mut found = found.into_iter();
            for (claim, jobs) in open.iter_mut().zip(&mut jobs) {
                for job in found.by_ref().take(usize::from(claim.count)) {
                    // Instead of a deleted or corrupt job another one is reserved.
                    let Some(job) = job else {
                        more = true;
                        continue;
                    };
                    jobs.push(job);
                    claim.count -= 1;
                }
            }
            if !more {
                return Ok(ReservedJobs { jobs, now_ms });
            }
        }
    }

    /// Makes one call. Returns whether to call again, the time, and the jobs in the order of the claims; `None` =
    /// deleted in between, or leased but corrupt.
    async fn reserve_once(
        &self,
        lane: Lane<'_>,
        claims: &[Claim],
        leases: &mut Vec<(JobId, u32)>,
    ) -> Result<(bool, u64, Vec<Option<Job>>), StoreError> {
        let Lane { queue, .. } = lane;
        let bucket = self.bucket_of(lane);
        let wanted = claims.iter().map(|claim| usize::from(claim.count)).sum();
        let call = self.call_on_queue(&RESERVE, queue, bucket);
        let call = call.arg(HINTS_PER_CALL).arg(carried_bytes(wanted));
        let call = call.arg(self.call_deadline(self.keys(bucket).prefix()));
        let call = claims.iter().fold(call, |call, claim| {
            call.arg(claim.count).arg(claim.ttr_ms.min(DURATION_MS_MAX))
        });
        let (mut reply, written) = call.send_tracked().await?;
        let is_late = reply.token() == "late";
        let now_ms = reply.count()?;
        written.note_clock(now_ms);
        if is_late {
            // The clock of Redis was set forward. The next call uses the time in this reply.
            return Ok((true, now_ms, Vec::new()));
        }
        reply = reply.ok()?;
        let more = reply.flag()?;
        let mut records = Vec::new();
        while reply.has_more() {
            let record = StoredRecord::read(bucket, reply.count()?, reply.bytes()?)?;
            leases.push((record.id, record.header.attempt));
            records.push(record);
        }
        let jobs = self.fetch_bodies(queue, records).await?.into_iter();
        let jobs = jobs.map(|job| match job {
            Ok(job) => Some(job),
            Err(JobReadError::Gone) => None,
            Err(JobReadError::Corrupt(error)) => {
                tracing::error!(%error, %queue, "failed to decode a job, it is not delivered: run `tidegate-pumpd audit`");
                CORRUPT.inc();
                None
            }
        });
        Ok((more, now_ms, jobs.collect()))
    }
}
