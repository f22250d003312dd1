//! A move of a pool, as its other processes learn of it.

use tidegate_core::QueueKey;
use tidegate_store::JobReference;

use super::Pool;
use crate::error::EngineError;

impl Pool {
    /// The deployment that may have a job which this one lacks, and others of the same call; `None` = there is none.
    ///
    /// # Errors
    /// Redis gave no answer. Or the pool moves, and the settings of this process do not say where to.
    pub(super) async fn next_deployment(
        &self,
        queue: &QueueKey,
        job: impl Into<JobReference>,
    ) -> Result<Option<&Self>, EngineError> {
        if let Some(target) = self.target.as_deref() {
            return Ok(Some(target));
        }
        match Box::pin(self.store.moves_elsewhere(queue, job.into())).await? {
            true => Err(EngineError::MoveUnknown),
            false => Ok(None),
        }
    }

    /// Before the first job is stored in the target: records in the own deployment that the pool moves.
    pub(super) async fn record_move(&self, target: &Self) {
        let recording = self.move_recorded.get_or_init(|| async {
            // It was left over if the pool has moved the other way before.
            let cleared = target.store.clear_moves_to().await;
            let recorded = self.store.set_moves_to(&target.name).await;
            if let Err(error) = cleared.and(recorded) {
                tracing::warn!(
                    pool = &*self.name,
                    %error,
                    "failed to record in redis that the pool moves: acks through processes without migrate_to have no effect"
                );
            }
        });
        Box::pin(recording).await;
    }
}
