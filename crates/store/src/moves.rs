//! Whether new jobs of a deployment are stored in another deployment, as all processes have to know: a process whose
//! settings do not name the other deployment would take a job there for a deleted job. Each bucket has the record: a
//! process that can read a job can read the record too, although other servers of a cluster may be unavailable.

use futures_util::future::join_all;
use redis::Cmd;
use tidegate_core::QueueKey;

use crate::error::StoreError;
use crate::store::Store;
use crate::verbs::JobReference;

impl Store {
    /// Records that new jobs are stored elsewhere: in the pool of this name.
    ///
    /// # Errors
    /// Redis is unavailable, or full. Some buckets may have the record.
    pub async fn set_moves_to(&self, pool: &str) -> Result<(), StoreError> {
        self.in_each_bucket(|key| Cmd::set(key, pool)).await
    }

    /// Records that new jobs are stored here.
    ///
    /// # Errors
    /// Redis is unavailable. Some buckets may have the record still.
    pub async fn clear_moves_to(&self) -> Result<(), StoreError> {
        self.in_each_bucket(Cmd::del).await
    }

    /// All buckets at the same time, whether or not the server of another bucket is available.
    async fn in_each_bucket(&self, command: impl Fn(String) -> Cmd) -> Result<(), StoreError> {
        let keys = self.all_buckets().map(|it| self.keys(it).moves_to());
        let calls = keys.map(|key| {
            let command = command(key);
            async move { self.command(&command).await }
        });
        let done = join_all(calls).await;
        done.into_iter().fold(Ok(()), Result::and)
    }

    /// Whether a job that this deployment does not have may be stored elsewhere.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn moves_elsewhere(
        &self,
        queue: &QueueKey,
        job: JobReference,
    ) -> Result<bool, StoreError> {
        // The other deployment may have more buckets.
        let bucket = self.bucket_of_job(queue, job).unwrap_or(0);
        let key = self.keys(bucket).moves_to();
        self.command(&Cmd::exists(key)).await
    }
}
