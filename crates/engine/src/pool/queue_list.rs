//! The queues of a namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::{Namespace, QueueKey, QueueName, QueuePolicy};
use tidegate_store::{ListedQueue, Stats};
use tokio::task::spawn_blocking;

use super::Pool;
use crate::error::EngineError;
use crate::metrics::Collected;

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
    /// Some queues could not be read, or the process ends: a list without them would be mistaken for the whole.
    pub async fn queues(
        &self,
        namespace: &Namespace,
    ) -> Result<BTreeMap<QueueName, Stats>, EngineError> {
        let mut all = Vec::new();
        for pool in self.with_target() {
            let collected = pool.collector.collect().await;
            let complete = collected.filter(|collected| collected.listed.missing_buckets == 0);
            all.push(complete.ok_or(EngineError::StorageFailed)?);
        }
        let namespace = namespace.clone();
        // There may be a hundred thousand: other requests must not wait for that.
        let listing = spawn_blocking(move || queues_of(&namespace, &all));
        listing.await.map_err(|_| EngineError::StorageFailed)
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

fn queues_of(namespace: &Namespace, all: &[Arc<Collected>]) -> BTreeMap<QueueName, Stats> {
    let mut queues: BTreeMap<QueueName, Stats> = BTreeMap::new();
    let listed = all.iter().flat_map(|collected| &collected.listed.queues);
    for ListedQueue { queue, stats, .. } in listed {
        if queue.namespace == *namespace {
            *queues.entry(queue.queue.clone()).or_default() += *stats;
        }
    }
    queues
}
