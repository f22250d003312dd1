//! The queues of a namespace.

use std::collections::BTreeMap;

use tidegate_core::{Namespace, QueueKey, QueueName, QueuePolicy};
use tidegate_store::{ListedQueue, Stats};

use super::Pool;
use crate::error::EngineError;

/// How a queue was deleted, or why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteQueueOutcome {
    /// It has no job and no policy any more.
    Deleted,
    /// It has jobs: nothing changed.
    NotEmpty,
}

impl Pool {
    /// The queues of a namespace that have jobs, or had some until a few minutes ago, with their numbers of jobs. The
    /// numbers may be as old as those of the metrics.
    ///
    /// # Errors
    /// Some queues could not be read: a list without them would be mistaken for the whole.
    pub async fn queues(
        &self,
        namespace: &Namespace,
    ) -> Result<BTreeMap<QueueName, Stats>, EngineError> {
        let mut queues = BTreeMap::new();
        for pool in self.with_target() {
            let collected = pool.collector.collect().await;
            let complete = collected.filter(|collected| collected.listed.missing_buckets == 0);
            let complete = complete.ok_or(EngineError::StorageFailed)?;
            for ListedQueue { queue, stats, .. } in &complete.listed.queues {
                if queue.namespace == *namespace {
                    *queues.entry(queue.queue.clone()).or_default() += *stats;
                }
            }
        }
        Ok(queues)
    }

    /// Deletes a queue that has no jobs: its policy, and what is known of it. The next publish creates it again.
    ///
    /// # Errors
    /// Redis gave no answer. The policy may be deleted.
    pub async fn delete_queue(&self, queue: &QueueKey) -> Result<DeleteQueueOutcome, EngineError> {
        let stats = self.stats(queue).await?;
        if stats != Stats::default() {
            return Ok(DeleteQueueOutcome::NotEmpty);
        }
        for pool in self.with_target() {
            let none = QueuePolicy::default();
            let _ = pool.policies.set(queue, &none, None).await?;
        }
        Ok(DeleteQueueOutcome::Deleted)
    }
}
