//! The directory of a pool: in which queues a job is that a client names by its key alone. A pool that moves has its
//! entries in the target, which stays; entries in its own deployment are read until they expire.

use std::time::Duration;

use tidegate_core::{Namespace, QueueName};

use crate::error::EngineError;
use crate::pool::Pool;

/// How long an entry is kept after its job was due or delivered.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long it is kept after its job is gone, so that a request about it may be repeated.
const KEPT_AT_END: Duration = Duration::from_secs(3600);

impl Pool {
    /// Records that the job with this key is in a queue, before it is published there; it is due after `delay`. Returns
    /// the other queues where such a job may be. They stay in the entry until [`Self::set_directory`] is called again
    /// with nothing else: after the jobs there were deleted.
    ///
    /// # Errors
    /// Redis gave no answer. The entry may have been stored.
    pub async fn add_to_directory(
        &self,
        namespace: &Namespace,
        key: &str,
        queue: &QueueName,
        delay: Duration,
    ) -> Result<Vec<QueueName>, EngineError> {
        let only = std::slice::from_ref(queue);
        let mut others = self.set_directory(namespace, key, only, delay).await?;
        if others.is_empty() && self.target.is_some() {
            others = self.store.directory().get(namespace, key).await?;
        }
        others.retain(|other| other != queue);
        if !others.is_empty() {
            let all = [only, &others].concat();
            self.set_directory(namespace, key, &all, delay).await?;
        }
        Ok(others)
    }

    /// Replaces the entry of a key, and returns the queues that it had. The job is due after `delay`.
    ///
    /// # Errors
    /// Redis gave no answer. The entry may have been stored.
    pub async fn set_directory(
        &self,
        namespace: &Namespace,
        key: &str,
        queues: &[QueueName],
        delay: Duration,
    ) -> Result<Vec<QueueName>, EngineError> {
        let directory = self.target.as_deref().unwrap_or(self).store.directory();
        let setting = directory.set(namespace, key, queues, delay.saturating_add(KEPT));
        Ok(setting.await?)
    }

    /// The queues in which the job with this key may be: the queues of its last publish or delivery; none if they are
    /// not known.
    ///
    /// # Errors
    /// Redis gave no answer.
    pub async fn directory(
        &self,
        namespace: &Namespace,
        key: &str,
    ) -> Result<Vec<QueueName>, EngineError> {
        let mut queues = Vec::new();
        for pool in [self.target.as_deref(), Some(self)].into_iter().flatten() {
            queues = pool.store.directory().get(namespace, key).await?;
            if !queues.is_empty() {
                break;
            }
        }
        Ok(queues)
    }

    /// Lets the entry of a key expire in an hour, since its job is gone.
    ///
    /// # Errors
    /// Redis gave no answer.
    pub async fn expire_directory(
        &self,
        namespace: &Namespace,
        key: &str,
    ) -> Result<(), EngineError> {
        for pool in self.with_target() {
            let directory = pool.store.directory();
            directory.expire(namespace, key, KEPT_AT_END).await?;
        }
        Ok(())
    }
}
