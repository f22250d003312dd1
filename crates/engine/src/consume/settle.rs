//! Settling jobs that consumers hold. In a pool that moves, jobs that its own deployment does not have are looked up in
//! its target.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::v1::consume::Outcome;
use tidegate_core::{JobId, QueueKey};
use tidegate_store::{AckRequest, Acked, FailRequest, LeasedJob, StoreError};

use crate::error::EngineError;
use crate::pool::Pool;
use crate::publish::batch::items::AckKey;

/// A call about jobs of a queue that a consumer holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// The jobs are done.
    Ack(Vec<AckRequest>),
    /// The runs failed. Their jobs are retried as the policy of the queue says, or are dead.
    Fail(Vec<FailRequest>),
    /// The consumer holds the jobs for longer. No lease becomes shorter.
    Touch {
        jobs: Vec<LeasedJob>,
        /// The length of the leases from now on; by default the length that the job has, or the policy of the queue.
        lease_ms: Option<u64>,
    },
    /// The consumer does not process the jobs. They are the next of their queue, or delayed.
    Release { jobs: Vec<LeasedJob>, delay_ms: u64 },
}

impl Settlement {
    fn id(&self, index: usize) -> JobId {
        match self {
            Self::Ack(requests) => requests[index].id,
            Self::Fail(failed) => failed[index].job.id,
            Self::Touch { jobs, .. } | Self::Release { jobs, .. } => jobs[index].id,
        }
    }

    /// The same for some of the jobs.
    fn only(&self, indexes: &[usize]) -> Self {
        fn at<T: Clone>(indexes: &[usize], items: &[T]) -> Vec<T> {
            indexes.iter().map(|index| items[*index].clone()).collect()
        }
        match self {
            Self::Ack(requests) => Self::Ack(at(indexes, requests)),
            Self::Fail(failed) => Self::Fail(at(indexes, failed)),
            Self::Touch { jobs, lease_ms } => Self::Touch {
                jobs: at(indexes, jobs),
                lease_ms: *lease_ms,
            },
            Self::Release { jobs, delay_ms } => Self::Release {
                jobs: at(indexes, jobs),
                delay_ms: *delay_ms,
            },
        }
    }
}

impl Pool {
    /// Deletes a job, in whichever deployment and state it is; if a newer version waits for the end of its lease, that
    /// runs. Returns whether there was such a job.
    ///
    /// # Errors
    /// Redis gave no answer; the job may have been deleted. Or the pool moves to a deployment that this process does
    /// not know, and may have the job there.
    pub async fn ack(self: &Arc<Self>, queue: &QueueKey, id: JobId) -> Result<bool, EngineError> {
        let key = &AckKey {
            queue: queue.clone(),
            bucket: id.bucket(),
            retains: false,
        };
        let acking = self.change_job(queue, id, |pool, _| async move {
            let acked = pool.acking.submit(pool, key, id.into()).await?;
            pool.count_acked(queue, &acked);
            Ok(acked.outcome)
        });
        Ok(acking.await? != Outcome::Gone)
    }

    /// Settles jobs, and returns the outcome of each, in order.
    ///
    /// # Errors
    /// Redis gave no answer. The call may have been carried out, and may be repeated: then runs that it has ended are
    /// lost or gone.
    pub async fn settle(
        self: &Arc<Self>,
        queue: &QueueKey,
        settlement: &Settlement,
    ) -> Result<Vec<Outcome>, EngineError> {
        let mut outcomes = self.settle_here(queue, settlement).await?;
        let indexes = 0..outcomes.len();
        let gone: Vec<usize> = indexes
            .filter(|index| outcomes[*index] == Outcome::Gone)
            .collect();
        if let Some(first) = gone.first()
            && let Some(target) = self.next_deployment(queue, settlement.id(*first)).await?
        {
            let found = target.settle_here(queue, &settlement.only(&gone)).await?;
            for (index, outcome) in gone.into_iter().zip(found) {
                outcomes[index] = outcome;
            }
        }
        Ok(outcomes)
    }

    async fn settle_here(
        self: &Arc<Self>,
        queue: &QueueKey,
        settlement: &Settlement,
    ) -> Result<Vec<Outcome>, StoreError> {
        let (store, policy) = (&self.store, || self.policies.policy(queue));
        let outcomes = match settlement {
            Settlement::Ack(requests) => {
                let acked = self.ack_here(queue, requests).await?;
                acked.into_iter().map(|acked| acked.outcome).collect()
            }
            Settlement::Fail(failed) => store.fail_all(queue, failed, &policy().retry).await?,
            Settlement::Touch { jobs, lease_ms } => {
                let default_ms = policy().lease_ms;
                store.touch_all(queue, jobs, *lease_ms, default_ms).await?
            }
            Settlement::Release { jobs, delay_ms } => {
                store.release_all(queue, jobs, *delay_ms).await?
            }
        };
        for outcome in &outcomes {
            match outcome {
                Outcome::Dead => self.metrics.died(1),
                Outcome::Released => self.metrics.released(),
                Outcome::Cancelled => self.metrics.deleted(1),
                _ => {}
            }
        }
        Ok(outcomes)
    }

    /// A single ack shares a call with acks of other requests.
    async fn ack_here(
        self: &Arc<Self>,
        queue: &QueueKey,
        requests: &[AckRequest],
    ) -> Result<Vec<Acked>, StoreError> {
        let acked = match requests {
            [request] if request.result.is_none() => {
                let key = AckKey {
                    queue: queue.clone(),
                    bucket: request.id.bucket(),
                    retains: true,
                };
                vec![self.acking.submit(self, &key, request.clone()).await?]
            }
            _ => {
                let retain_ms = self.policies.policy(queue).retain_ms;
                self.store.ack_all(queue, requests, retain_ms).await?
            }
        };
        acked
            .iter()
            .for_each(|acked| self.count_acked(queue, acked));
        Ok(acked)
    }

    fn count_acked(&self, queue: &QueueKey, acked: &Acked) {
        if let Outcome::Done { .. } = acked.outcome {
            self.metrics.deleted(1);
        }
        if let Outcome::Done { .. } | Outcome::Rerun = acked.outcome {
            let age = Duration::from_millis(acked.age_ms);
            self.metrics.acked(queue, age);
        }
    }
}
