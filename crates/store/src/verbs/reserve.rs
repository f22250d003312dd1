use metrics::counter;
use tidegate_core::codec::decode_job;
use tidegate_core::{DURATION_MS_MAX, Job, QueueKey};

use super::HINTS_PER_CALL;
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
    /// Takes the oldest live jobs of a queue under leases: claims are served in order, each one until
    /// it has its count or the queue is empty. Expired and stale entries are skipped, so an empty
    /// answer means that the queue is empty.
    ///
    /// # Errors
    /// Redis is unavailable; jobs that it had already leased come back when their leases end.
    ///
    /// A job whose record cannot be decoded is passed over: it is never delivered, and is dead when its
    /// tries are used up. The log names it.
    pub async fn reserve(
        &self,
        queue: &QueueKey,
        claims: &[Claim],
    ) -> Result<Reserved, StoreError> {
        let mut open: Vec<Claim> = claims.to_vec();
        let mut jobs: Vec<Vec<Job>> = vec![Vec::new(); claims.len()];
        loop {
            let (more, now_ms, found) = self.reserve_once(queue, &open).await?;
            let has_corrupt = found.iter().any(Option::is_none);
            let mut found = found.into_iter();
            for (claim, jobs) in open.iter_mut().zip(&mut jobs) {
                let before = jobs.len();
                jobs.extend(found.by_ref().take(usize::from(claim.count)).flatten());
                claim.count -= u16::try_from(jobs.len() - before).unwrap_or(claim.count);
            }
            if !more && !has_corrupt {
                return Ok(Reserved { jobs, now_ms });
            }
        }
    }

    /// The jobs in the order of the claims; `None` for one that is leased now and cannot be decoded.
    async fn reserve_once(
        &self,
        queue: &QueueKey,
        claims: &[Claim],
    ) -> Result<(bool, u64, Vec<Option<Job>>), StoreError> {
        let bucket = self.bucket_of(queue);
        let call = self.call_on_queue(&RESERVE, queue).arg(HINTS_PER_CALL);
        let call = claims.iter().fold(call, |call, claim| {
            call.arg(claim.count).arg(claim.ttr_ms.min(DURATION_MS_MAX))
        });
        let mut reply = call.send().await?.ok()?;
        let (now_ms, more) = (reply.count()?, reply.flag()?);
        let mut jobs = Vec::new();
        while reply.has_more() {
            let (number, record) = (reply.count()?, reply.bytes()?);
            let job = decode_job(bucket, number, record).inspect_err(|error| {
                tracing::error!(%error, %queue, bucket, number, "a job is corrupt and not delivered");
                counter!(CORRUPT).increment(1);
            });
            jobs.push(job.ok());
        }
        Ok((more, now_ms, jobs))
    }
}
