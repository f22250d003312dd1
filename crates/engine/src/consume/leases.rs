//! Verbs for jobs that consumers hold. In a pool that moves, jobs that its own deployment does not have are looked up in
//! its target.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{JobId, QueueKey};
use tidegate_store::{
    AckOutcome, AckRequest, FailOutcome, FailRequest, LeasedJob, NewResult, ReleaseOutcome,
    StoreError, TouchOutcome,
};

use crate::error::EngineError;
use crate::pool::Pool;

impl Pool {
    /// Deletes a job, in whichever deployment and state it is; if a newer version waits for the end of its lease, that
    /// runs. Returns whether there was such a job.
    ///
    /// # Errors
    /// Redis gave no answer; the job may have been deleted. Or the pool moves to a deployment that this process does not
    /// know, and may have the job there.
    pub async fn ack(self: &Arc<Self>, queue: &QueueKey, id: JobId) -> Result<bool, EngineError> {
        let key = &(queue.clone(), id.bucket());
        let acking = self.change_job(queue, id, |pool| async move {
            let acked = pool.acking.submit(pool, key, id).await?;
            pool.count_acked(queue, [acked]);
            Ok(acked)
        });
        Ok(acking.await? != AckOutcome::AlreadyGone)
    }

    /// Ends the runs of jobs that are done.
    ///
    /// # Errors
    /// Redis gave no answer. Jobs may be done; the call may be repeated.
    pub async fn ack_leased(
        self: &Arc<Self>,
        queue: &QueueKey,
        jobs: &[LeasedJob],
    ) -> Result<Vec<AckOutcome>, EngineError> {
        let mut outcomes = self.ack_here(queue, jobs).await?;
        let gone = Gone::of(jobs, &outcomes, |it| *it == AckOutcome::AlreadyGone);
        if let Some(job) = gone.items.first()
            && let Some(target) = self.next_deployment(queue, job.id).await?
        {
            gone.fill(&mut outcomes, target.ack_here(queue, &gone.items).await?);
        }
        Ok(outcomes)
    }

    async fn ack_here(
        self: &Arc<Self>,
        queue: &QueueKey,
        jobs: &[LeasedJob],
    ) -> Result<Vec<AckOutcome>, StoreError> {
        let outcomes = match jobs {
            [job] => {
                let key = (queue.clone(), job.id.bucket());
                vec![self.acking_leases.submit(self, &key, done(job)).await?]
            }
            _ => {
                let jobs: Vec<AckRequest> = jobs.iter().map(done).collect();
                let retain_ms = self.policies.policy(queue).retain_ms;
                self.store.ack_all(queue, &jobs, retain_ms).await?
            }
        };
        self.count_acked(queue, outcomes.iter().copied());
        Ok(outcomes)
    }

    /// Ends the runs of jobs that are done and may have results. Returns also whether the result was dropped, since Redis
    /// has no memory left.
    ///
    /// # Errors
    /// Redis gave no answer. Jobs may be done; a repeated call finds them gone, and their results are kept.
    pub async fn ack_with_results(
        &self,
        queue: &QueueKey,
        jobs: &[(LeasedJob, Option<NewResult>)],
    ) -> Result<Vec<(AckOutcome, bool)>, EngineError> {
        let mut outcomes = self.ack_results_here(queue, jobs).await?;
        let gone = Gone::of(jobs, &outcomes, |(it, _)| *it == AckOutcome::AlreadyGone);
        if let Some((job, _)) = gone.items.first()
            && let Some(target) = self.next_deployment(queue, job.id).await?
        {
            let acked = target.ack_results_here(queue, &gone.items).await?;
            gone.fill(&mut outcomes, acked);
        }
        Ok(outcomes)
    }

    async fn ack_results_here(
        &self,
        queue: &QueueKey,
        jobs: &[(LeasedJob, Option<NewResult>)],
    ) -> Result<Vec<(AckOutcome, bool)>, StoreError> {
        let jobs = jobs.iter().map(|(job, result)| (done(job), result.clone()));
        let jobs: Vec<(AckRequest, Option<NewResult>)> = jobs.collect();
        let retain_ms = self.policies.policy(queue).retain_ms;
        let acked = self.store.ack_with_results(queue, &jobs, retain_ms);
        let acked = acked.await?;
        self.count_acked(queue, acked.iter().map(|(outcome, _)| *outcome));
        Ok(acked)
    }

    pub(crate) fn count_acked(
        &self,
        queue: &QueueKey,
        outcomes: impl IntoIterator<Item = AckOutcome>,
    ) {
        for outcome in outcomes {
            if let AckOutcome::Done { .. } = outcome {
                self.metrics.deleted(1);
            }
            if let AckOutcome::Done { age_ms, .. } | AckOutcome::Rerun { age_ms } = outcome {
                self.metrics.acked(queue, Duration::from_millis(age_ms));
            }
        }
    }

    /// Ends runs that failed: their jobs are retried as the policy of the queue says, or are dead.
    ///
    /// # Errors
    /// Redis gave no answer. Runs may have been ended; a repeated call finds them lost.
    pub async fn fail(
        &self,
        queue: &QueueKey,
        failed: &[FailRequest],
    ) -> Result<Vec<FailOutcome>, EngineError> {
        let mut outcomes = self.fail_here(queue, failed).await?;
        let gone = Gone::of(failed, &outcomes, |it| *it == FailOutcome::AlreadyGone);
        if let Some(failed) = gone.items.first()
            && let Some(target) = self.next_deployment(queue, failed.job.id).await?
        {
            gone.fill(&mut outcomes, target.fail_here(queue, &gone.items).await?);
        }
        Ok(outcomes)
    }

    async fn fail_here(
        &self,
        queue: &QueueKey,
        failed: &[FailRequest],
    ) -> Result<Vec<FailOutcome>, StoreError> {
        let policy = self.policies.policy(queue);
        let outcomes = self.store.fail_all(queue, failed, &policy.retry).await?;
        let dead = outcomes.iter().filter(|it| **it == FailOutcome::Dead);
        self.metrics.died(dead.count() as u64);
        Ok(outcomes)
    }

    /// Extends leases to `lease_ms` from now on; by default to the length that the job has, or the policy of the queue.
    /// No lease becomes shorter.
    ///
    /// # Errors
    /// Redis gave no answer. Leases may have been extended; the call may be repeated.
    pub async fn touch(
        &self,
        queue: &QueueKey,
        jobs: &[LeasedJob],
        lease_ms: Option<u64>,
    ) -> Result<Vec<TouchOutcome>, EngineError> {
        let mut outcomes = self.touch_here(queue, jobs, lease_ms).await?;
        let gone = Gone::of(jobs, &outcomes, |it| *it == TouchOutcome::AlreadyGone);
        if let Some(job) = gone.items.first()
            && let Some(target) = self.next_deployment(queue, job.id).await?
        {
            let touched = target.touch_here(queue, &gone.items, lease_ms).await?;
            gone.fill(&mut outcomes, touched);
        }
        Ok(outcomes)
    }

    async fn touch_here(
        &self,
        queue: &QueueKey,
        jobs: &[LeasedJob],
        lease_ms: Option<u64>,
    ) -> Result<Vec<TouchOutcome>, StoreError> {
        let default_ms = self.policies.policy(queue).lease_ms;
        let touching = self.store.touch_all(queue, jobs, lease_ms, default_ms);
        touching.await
    }

    /// Gives jobs back that a consumer does not process. They are the next of their queue, or delayed.
    ///
    /// # Errors
    /// Redis gave no answer. Jobs may have been given back; a repeated call finds their deliveries lost.
    pub async fn release(
        &self,
        queue: &QueueKey,
        jobs: &[LeasedJob],
        delay_ms: u64,
    ) -> Result<Vec<ReleaseOutcome>, EngineError> {
        let mut outcomes = self.release_here(queue, jobs, delay_ms).await?;
        let gone = Gone::of(jobs, &outcomes, |it| *it == ReleaseOutcome::AlreadyGone);
        if let Some(job) = gone.items.first()
            && let Some(target) = self.next_deployment(queue, job.id).await?
        {
            let released = target.release_here(queue, &gone.items, delay_ms).await?;
            gone.fill(&mut outcomes, released);
        }
        Ok(outcomes)
    }

    async fn release_here(
        &self,
        queue: &QueueKey,
        jobs: &[LeasedJob],
        delay_ms: u64,
    ) -> Result<Vec<ReleaseOutcome>, StoreError> {
        let outcomes = self.store.release_all(queue, jobs, delay_ms).await?;
        let done = outcomes.iter().filter(|it| **it == ReleaseOutcome::Done);
        done.for_each(|_| self.metrics.released());
        Ok(outcomes)
    }
}

const fn done(job: &LeasedJob) -> AckRequest {
    AckRequest {
        id: job.id,
        attempt: Some(job.attempt),
    }
}

/// The items of a call that its deployment did not have.
struct Gone<I> {
    indexes: Vec<usize>,
    items: Vec<I>,
}

impl<I: Clone> Gone<I> {
    fn of<O>(items: &[I], outcomes: &[O], is_gone: impl Fn(&O) -> bool) -> Self {
        let gone = outcomes.iter().enumerate().filter(|(_, it)| is_gone(it));
        let indexes: Vec<usize> = gone.map(|(index, _)| index).collect();
        Self {
            items: indexes.iter().map(|index| items[*index].clone()).collect(),
            indexes,
        }
    }

    /// Sets the outcomes of these items.
    fn fill<O>(&self, outcomes: &mut [O], found: Vec<O>) {
        for (index, outcome) in self.indexes.iter().zip(found) {
            outcomes[*index] = outcome;
        }
    }
}
