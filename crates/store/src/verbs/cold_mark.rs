use futures_util::{StreamExt, TryStreamExt};
use redis::Cmd;
use tidegate_core::Partition;

use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static COLD_MARK: LazyScript = script!("cold_mark");

/// Reads of buckets at the same time.
const READS: usize = 16;

/// How far a bucket has come in the cold tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColdProgress {
    /// No payload is frozen into this partition, or an earlier one.
    pub closed: Option<Partition>,
    /// No job refers to this partition, or an earlier one.
    pub thawed: Option<Partition>,
    /// The time on the clock of the bucket's Redis.
    pub now_ms: u64,
}

/// A partition that a bucket has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColdMark {
    /// [`ColdProgress::closed`] from now on.
    Closed(Partition),
    /// [`ColdProgress::thawed`] from now on.
    Thawed(Partition),
}

impl Store {
    /// Returns how far a bucket has come, after it has reached `mark`; `None` = this instance does not lead the bucket.
    ///
    /// # Errors
    /// Redis is unavailable. The call may have been executed; it is safe to repeat it.
    pub async fn cold_mark(
        &self,
        bucket: u16,
        token: &str,
        mark: Option<ColdMark>,
    ) -> Result<Option<ColdProgress>, StoreError> {
        let (field, partition) = match mark {
            None => ("", 0),
            Some(ColdMark::Closed(partition)) => ("closed", partition.0),
            Some(ColdMark::Thawed(partition)) => ("thawed", partition.0),
        };
        let call = self
            .call_on_lock(&COLD_MARK, bucket, token)
            .arg(field)
            .arg(partition);
        let mut reply = call.send().await?;
        if reply.is_lost()? {
            return Ok(None);
        }
        let mut partition = || -> Result<Option<Partition>, StoreError> {
            let number = reply.optional()?;
            Ok(number
                .and_then(|number| u32::try_from(number).ok())
                .map(Partition))
        };
        Ok(Some(ColdProgress {
            closed: partition()?,
            thawed: partition()?,
            now_ms: reply.count()?,
        }))
    }

    /// The last partition that all buckets have thawed; `None` = some bucket has thawed none.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn cold_thawed(&self) -> Result<Option<Partition>, StoreError> {
        let reads = self.all_buckets().map(|bucket| async move {
            let thawed = Cmd::hget(self.keys(bucket).cold(), "thawed");
            let thawed = self.command::<Option<i64>>(&thawed).await?;
            Ok::<_, StoreError>(thawed.and_then(|number| u32::try_from(number).ok()))
        });
        let thawed: Vec<Option<u32>> = futures_util::stream::iter(reads)
            .buffer_unordered(READS)
            .try_collect()
            .await?;
        let first = thawed.into_iter().min().flatten();
        Ok(first.map(Partition))
    }
}
