use metrics::counter;
use tidegate_core::{DURATION_MS_MAX, Job, JobId, Lane, QueueKey};

use super::HINTS_PER_CALL;
use crate::bodies::{Incomplete, Record, carried_bytes};
use crate::measures::CORRUPT;
use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static RESERVE: LazyScript = script!("reserve");

/// What one consumer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The most jobs it takes.
    pub count: u16,
    /// The length of its lease, in ms.
    pub ttr_ms: u64,
}

/// What consumers got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// The jobs of each claim, in the order of the claims.
    pub jobs: Vec<Vec<Job>>,
    /// The clock of Redis, in ms.
    pub now_ms: u64,
}

impl Store {
    /// Takes the oldest live jobs of a lane under leases: claims are served in order, each one until
    /// it has its count or the lane is empty. Expired and stale entries are skipped, so an empty
    /// answer means that the lane is empty.
    ///
    /// # Errors
    /// Redis is unavailable; jobs that it had already leased are released without costing a try, or where
    /// that fails, too, come back when their leases end.
    ///
    /// A job whose record cannot be decoded is passed over: it is never delivered, and is dead when its
    /// tries are used up. The log names it.
    pub async fn reserve<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
        claims: &[Claim],
    ) -> Result<Reserved, StoreError> {
        let lane = lane.into();
        let mut leases = Vec::new();
        let reserved = self.reserve_all(lane, claims, &mut leases).await;
        if let Err(StoreError::Unavailable { .. }) = reserved {
            self.release_all(lane.queue, leases).await;
        }
        reserved
    }

    /// Notes in `leases` each delivery that was made, whatever happens then.
    async fn reserve_all(
        &self,
        lane: Lane<'_>,
        claims: &[Claim],
        leases: &mut Vec<(JobId, u32)>,
    ) -> Result<Reserved, StoreError> {
        let mut open: Vec<Claim> = claims.to_vec();
        let mut jobs: Vec<Vec<Job>> = vec![Vec::new(); claims.len()];
        loop {
            let (mut more, now_ms, found) = self.reserve_once(lane, &open, leases).await?;
            let mut found = found.into_iter();
            for (claim, jobs) in open.iter_mut().zip(&mut jobs) {
                for job in found.by_ref().take(usize::from(claim.count)) {
                    // One that is gone already, or corrupt, leaves its place to another one.
                    let Some(job) = job else {
                        more = true;
                        continue;
                    };
                    jobs.push(job);
                    claim.count -= 1;
                }
            }
            if !more {
                return Ok(Reserved { jobs, now_ms });
            }
        }
    }

    /// The jobs in the order of the claims; `None` for one that was deleted meanwhile, or that is leased
    /// now and cannot be decoded.
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
        let call = call.arg(self.latest(self.keys(bucket).prefix()));
        let call = claims.iter().fold(call, |call, claim| {
            call.arg(claim.count).arg(claim.ttr_ms.min(DURATION_MS_MAX))
        });
        let (mut reply, written) = call.write().await?;
        let is_late = reply.token() == "late";
        let now_ms = reply.count()?;
        written.note_clock(now_ms);
        if is_late {
            // The clock of Redis was set forward. The next call goes by the clock as it is now.
            return Ok((true, now_ms, Vec::new()));
        }
        reply = reply.ok()?;
        let more = reply.flag()?;
        let mut records = Vec::new();
        while reply.has_more() {
            let record = Record::read(bucket, reply.count()?, reply.bytes()?)?;
            leases.push((record.id, record.header.attempt));
            records.push(record);
        }
        let jobs = self.complete(queue, records).await?.into_iter();
        let jobs = jobs.map(|job| match job {
            Ok(job) => Some(job),
            Err(Incomplete::Gone) => None,
            Err(Incomplete::Corrupt(error)) => {
                tracing::error!(%error, %queue, "a job is corrupt and not delivered");
                counter!(CORRUPT).increment(1);
                None
            }
        });
        Ok((more, now_ms, jobs.collect()))
    }

    /// Takes deliveries back, the last one first, so that the oldest job is the queue's next again. Ends with
    /// the first that cannot be.
    async fn release_all(&self, queue: &QueueKey, leases: Vec<(JobId, u32)>) {
        for (id, attempt) in leases.into_iter().rev() {
            if self.release(queue, id, attempt).await.is_err() {
                return;
            }
        }
    }
}
