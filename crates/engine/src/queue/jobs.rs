//! Verbs for single jobs, named by id or key. In a pool that moves, a job that its own deployment does not have is
//! looked up in its target.

use std::sync::Arc;

use futures_util::future::try_join_all;
use tidegate_core::v1::job::JobChange;
use tidegate_core::{IfRunning, Job, JobId, Policy, QueueKey};
use tidegate_store::{
    CancelOutcome, ChangeOutcome, JobReference, JobSurroundings, LoggedFailure, PeekedJob,
    PromoteOutcome, TakenUnits,
};

use crate::error::EngineError;
use crate::pool::Pool;
use crate::queue::lanes::running_share_of;
use crate::queue::policies::QueueRate;

impl Pool {
    /// The policy of a queue, as this process knows it.
    pub fn policy(&self, queue: &QueueKey) -> Policy {
        self.target
            .as_deref()
            .unwrap_or(self)
            .policies
            .policy(queue)
    }

    /// After how many failures a job that counts them is dead: its own number, or the number of the policy of its
    /// queue.
    pub fn max_attempts(&self, queue: &QueueKey, job: &Job) -> u16 {
        let own = job.extension.as_ref().and_then(|own| own.max_attempts);
        own.unwrap_or_else(|| self.policy(queue).retry.max_attempts)
    }

    /// How many attempts a job has left.
    pub fn attempts_left(&self, queue: &QueueKey, job: &Job) -> u16 {
        match job.failures {
            None => job.tries_left,
            Some(counts) => self
                .max_attempts(queue, job)
                .saturating_sub(counts.failures),
        }
    }

    /// Whether no jobs of a queue are delivered now.
    pub fn is_paused(&self, queue: &QueueKey) -> bool {
        self.with_target()
            .all(|pool| pool.policies.is_paused(queue))
    }

    /// The number of jobs that may be leased at a time in the lane of a job; `None` = not limited.
    pub fn max_running_in_lane_of(&self, queue: &QueueKey, job: JobId) -> Option<u64> {
        let all = self.policy(queue).max_running?;
        let lanes = self.lanes.used(queue);
        let lane = self.store.lane_in(job.bucket(), queue, lanes).unwrap_or(0);
        Some(running_share_of(lane, self.lanes.open(queue), all))
    }

    /// The rates of a queue, each with the time of its next unit.
    ///
    /// # Errors
    /// Redis gave no answer.
    pub async fn look_at_rates(
        &self,
        queue: &QueueKey,
    ) -> Result<Vec<(QueueRate, TakenUnits)>, EngineError> {
        let pool = self.target.as_deref().unwrap_or(self);
        let rates = pool.policies.rates(queue).into_iter().map(async |rate| {
            let look = pool.store.take_units(&rate.owner, rate.rate, 0).await?;
            Ok((rate, look))
        });
        try_join_all(rates).await
    }

    /// Reads a job without changing it. Returns `None` if the queue has no such job.
    ///
    /// # Errors
    /// Redis gave no answer.
    pub async fn peek_job(
        &self,
        queue: &QueueKey,
        job: impl Into<JobReference>,
    ) -> Result<Option<PeekedJob>, EngineError> {
        let job = job.into();
        let peeked = self
            .read_job(queue, job, |pool, job| pool.store.peek_job(queue, job))
            .await?;
        Ok(peeked.and_then(|peeked| self.count_peeked(peeked)))
    }

    /// A job, and the facts that decide when it is delivered; `None` if the queue has no such job.
    ///
    /// # Errors
    /// Redis gave no answer.
    pub async fn explain(
        &self,
        queue: &QueueKey,
        job: JobReference,
    ) -> Result<Option<JobSurroundings>, EngineError> {
        let reading = self.read_job(queue, job, |pool, job| pool.store.explain(queue, job));
        reading.await
    }

    /// The last failures of a job, oldest first.
    ///
    /// # Errors
    /// Redis gave no answer.
    pub async fn history(&self, job: &Job) -> Result<Vec<LoggedFailure>, EngineError> {
        let mut failures = Vec::new();
        if job.has_history {
            for pool in self.with_target() {
                failures.extend(pool.store.history(job.id).await?);
            }
        }
        Ok(failures)
    }

    /// Changes when a delayed or ready job is due.
    ///
    /// # Errors
    /// Redis gave no answer. The job may have been changed.
    pub async fn change(
        self: &Arc<Self>,
        queue: &QueueKey,
        job: JobReference,
        change: JobChange,
    ) -> Result<ChangeOutcome, EngineError> {
        let changing = self.change_job(queue, job, |pool, job| {
            pool.store.change(queue, job, change)
        });
        changing.await
    }

    /// Makes a delayed job ready now.
    ///
    /// # Errors
    /// Redis gave no answer. The job may be ready.
    pub async fn promote(
        self: &Arc<Self>,
        queue: &QueueKey,
        job: JobReference,
    ) -> Result<PromoteOutcome, EngineError> {
        let promoting = self.change_job(queue, job, |pool, job| pool.store.promote(queue, job));
        promoting.await
    }

    /// Deletes a job; a job that a consumer holds, as `if_running` says.
    ///
    /// # Errors
    /// Redis gave no answer. The job may have been deleted.
    pub async fn cancel(
        self: &Arc<Self>,
        queue: &QueueKey,
        job: JobReference,
        if_running: IfRunning,
    ) -> Result<CancelOutcome, EngineError> {
        let cancelling = self.change_job(queue, job, |pool, job| async move {
            let outcome = pool.store.cancel(queue, job, if_running).await?;
            pool.count_cancelled(outcome);
            Ok(outcome)
        });
        cancelling.await
    }

    pub(super) fn count_cancelled(&self, outcome: CancelOutcome) {
        if let CancelOutcome::Done { .. } = outcome {
            self.metrics.deleted(1);
        }
    }

    pub(super) fn count_peeked(&self, peeked: PeekedJob) -> Option<PeekedJob> {
        self.metrics.peeked();
        Some(peeked)
    }
}
