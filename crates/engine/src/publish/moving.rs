//! Publishing in a pool that moves: new jobs are stored in its target. A key has one job in both deployments together.

use std::sync::Arc;

use tidegate_core::QueueKey;
use tidegate_store::PublishJob;

use super::batch::items::Intake;
use super::{JobsToPublish, Published};
use crate::error::EngineError;
use crate::pool::Pool;

impl Pool {
    /// Publishes a job whose key this deployment has here, and others in `target`.
    pub(super) async fn publish_moving(
        self: &Arc<Self>,
        target: &Arc<Self>,
        queue: &QueueKey,
        publish: JobsToPublish,
    ) -> Result<Published, EngineError> {
        self.record_move(target).await;
        if !publish.jobs.iter().any(PublishJob::is_keyed) {
            return self.publish_unkeyed_moving(target, queue, publish).await;
        }
        self.publish_keyed(queue, publish, Intake::Open).await
    }

    async fn publish_unkeyed_moving(
        self: &Arc<Self>,
        target: &Arc<Self>,
        queue: &QueueKey,
        publish: JobsToPublish,
    ) -> Result<Published, EngineError> {
        let replaces = publish.replaces;
        let published = target.publish_here(queue, publish).await?;
        if let (Some(replaced), Ok(_)) = (replaces, &published.durability) {
            // It may be gone, or the target had it: the answer does not matter.
            let _ = self.store.ack(queue, replaced, None).await?;
        }
        Ok(published)
    }
}
