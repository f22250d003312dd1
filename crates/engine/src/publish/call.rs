//! Publishing in one deployment: with others in a batch, or in a call of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use tidegate_core::v1::publish::PublishResult;
use tidegate_core::{Durability, JobId, JobState, NewJob, QueueKey};
use tidegate_store::{
    ConnectError, KeyedCall, PublishJob, PublishRefusal, PublishReply, StoreError, StoredJob,
};

use super::{JobsToPublish, Published};
use crate::error::EngineError;
use crate::pool::Pool;
use crate::publish::batch::items::{Intake, LaneCall, PublishItem, SinglePublishItem};
use crate::publish::durability::DurabilityTarget;
use crate::publish::size::{BATCHED_BYTES_MAX, PublishSize};
use crate::queue::lanes::IDEMPOTENCY_WINDOW_MS;

impl Pool {
    /// Publishes in this deployment.
    pub(super) async fn publish_here(
        self: &Arc<Self>,
        queue: &QueueKey,
        publish: JobsToPublish,
    ) -> Result<Published, EngineError> {
        if publish.jobs.iter().any(PublishJob::is_keyed) {
            return self.publish_keyed(queue, publish, Intake::Open).await;
        }
        let may_be_split = !publish.atomic && publish.jobs.len() > 1;
        if may_be_split && self.policies.max_jobs(queue).is_some() {
            return Box::pin(self.publish_each(queue, publish)).await;
        }
        if may_be_split && self.lane_of_group(queue, &publish.jobs).is_some() {
            return Box::pin(self.publish_by_groups(queue, publish)).await;
        }
        self.publish_unkeyed(queue, publish).await
    }

    /// The lane of the first group of these jobs, if their queue has several lanes: the jobs of a group are in one lane,
    /// which counts how many of them run.
    fn lane_of_group(&self, queue: &QueueKey, jobs: &[PublishJob]) -> Option<u16> {
        let open = self.lanes.open(queue);
        let group = |job: &PublishJob| job.job.native.as_ref()?.extension.group_hash;
        let group = jobs.iter().filter(|_| open > 1).find_map(group)?;
        Some(group.lane_hash().lane(open))
    }

    /// Publishes jobs without keys to a queue with several lanes, a call for the groups of each lane.
    async fn publish_by_groups(
        self: &Arc<Self>,
        queue: &QueueKey,
        publish: JobsToPublish,
    ) -> Result<Published, EngineError> {
        let durability = publish.durability;
        let mut results = vec![Err(EngineError::StorageFailed); publish.jobs.len()];
        let mut by_lane: BTreeMap<_, (Vec<usize>, Vec<PublishJob>)> = BTreeMap::new();
        for (index, job) in publish.jobs.into_iter().enumerate() {
            let lane = self.lane_of_group(queue, std::slice::from_ref(&job));
            let (places, jobs) = by_lane.entry(lane).or_default();
            places.push(index);
            jobs.push(job);
        }
        let calls = by_lane.into_values().map(|(places, jobs)| async {
            let part = JobsToPublish {
                jobs,
                replaces: None,
                atomic: false,
                durability,
            };
            (places, self.publish_unkeyed(queue, part).await)
        });
        let mut reached = Ok(durability.durability);
        for (places, published) in join_all(calls).await {
            let published = match published {
                Ok(published) => published,
                Err(error) => {
                    places.iter().for_each(|place| results[*place] = Err(error));
                    continue;
                }
            };
            if published.durability.is_err() {
                reached = published.durability;
            }
            for (place, result) in places.into_iter().zip(published.jobs) {
                results[place] = result;
            }
        }
        Ok(Published {
            jobs: results,
            durability: reached,
        })
    }

    /// Publishes jobs without keys to a queue that may have room for a part of them only. They share calls to Redis
    /// nevertheless.
    async fn publish_each(
        self: &Arc<Self>,
        queue: &QueueKey,
        publish: JobsToPublish,
    ) -> Result<Published, EngineError> {
        let mut reached = Ok(publish.durability.durability);
        let publishing = publish.jobs.into_iter().map(|job| {
            let one = JobsToPublish::one(job, publish.durability);
            self.publish_unkeyed(queue, one)
        });
        let published = join_all(publishing).await;
        let jobs = published.into_iter().map(|published| {
            let published = published?;
            if published.durability.is_err() {
                reached.clone_from(&published.durability);
            }
            published.first()
        });
        let jobs = jobs.collect();
        Ok(Published {
            jobs,
            durability: reached,
        })
    }

    async fn publish_unkeyed(
        self: &Arc<Self>,
        queue: &QueueKey,
        publish: JobsToPublish,
    ) -> Result<Published, EngineError> {
        let JobsToPublish {
            jobs,
            replaces,
            durability: target,
            ..
        } = publish;
        let of_group = self.lane_of_group(queue, &jobs);
        let jobs: Vec<NewJob> = jobs.into_iter().map(|job| job.job).collect();
        let size = PublishSize::of(&jobs);
        let room = self.backlog.take(size)?;
        self.prepare_durability(target).await?;
        let new = PublishItem { jobs, room };
        let is_alone = replaces.is_some() || of_group.is_some() || size.bytes > BATCHED_BYTES_MAX;
        let published = if is_alone {
            let lane = of_group.unwrap_or_else(|| self.publisher.lane_for(queue, replaces));
            let key = (queue.clone(), self.lanes.server_of(queue, lane));
            let item = SinglePublishItem {
                new,
                replaces,
                lane,
            };
            self.publishing_alone.submit(self, &key, item).await
        } else {
            let published = self.publishing.submit(self, queue, new).await;
            published.and_then(|outcome| outcome)
        };
        let published = self.published(queue, published, target).await?;
        let is_elsewhere = |replaced: &JobId| {
            let mut stored = published.jobs.iter().flatten();
            stored.all(|job| job.id.bucket() != replaced.bucket())
        };
        if let (Some(replaced), Ok(_)) = (replaces.filter(is_elsewhere), &published.durability) {
            // The jobs are in another lane, as its lane is closed: it could not be deleted in the same step.
            let _ = Box::pin(self.store.ack(queue, replaced, None)).await?;
        }
        Ok(published)
    }

    /// How jobs with keys are published to a queue, as its policy says.
    pub(crate) fn keyed_call(&self, queue: &QueueKey, call: LaneCall) -> KeyedCall {
        let max_jobs = self.policies.max_jobs(queue);
        let share = self.lanes.share_of(queue, call.place.lane, max_jobs);
        KeyedCall {
            max_jobs: match call.intake {
                Intake::Full => Some(0),
                // The job of a key can go to no other lane.
                Intake::Open | Intake::Closed => share.map(|jobs| jobs.max(1)),
            },
            is_closed: call.intake == Intake::Closed,
            place: call.place,
            asks: call.asks,
            idempotency_window_ms: IDEMPOTENCY_WINDOW_MS,
            atomic: call.atomic,
        }
    }

    /// Counts the jobs that a call has stored, and waits until they have the requested durability.
    ///
    /// # Errors
    /// The call failed, or stored nothing.
    pub(super) async fn published(
        &self,
        queue: &QueueKey,
        reply: Result<PublishReply, StoreError>,
        target: DurabilityTarget,
    ) -> Result<Published, EngineError> {
        let (jobs, receipt) = match reply.map_err(EngineError::of_publish)? {
            PublishReply::Done { jobs, receipt } => (jobs, receipt),
            PublishReply::Refused { index, refusal } => {
                return Err(EngineError::JobRefused { index, refusal });
            }
            PublishReply::QueueFull { .. } | PublishReply::LaneClosed => {
                return Err(EngineError::QueueFull);
            }
        };
        self.count_published(queue, &jobs);
        let jobs = jobs.into_iter().map(|job| job.map_err(EngineError::from));
        let durability = target.wait_until_durable(&self.store, receipt, &self.name);
        Ok(Published {
            jobs: jobs.collect(),
            durability: durability.await,
        })
    }

    fn count_published(&self, queue: &QueueKey, jobs: &[Result<StoredJob, PublishRefusal>]) {
        let (mut delayed, mut others, mut revived) = (0, 0, 0);
        for job in jobs.iter().flatten() {
            match (job.outcome, job.state) {
                _ if job.replayed => {}
                (PublishResult::Created, Some(JobState::Delayed)) => delayed += 1,
                (PublishResult::Created, _) => others += 1,
                (PublishResult::Revived, _) => revived += 1,
                _ => {}
            }
        }
        if revived > 0 {
            self.metrics.respawned(revived);
        }
        for (jobs, is_delayed) in [(delayed, true), (others, false)] {
            if jobs > 0 {
                self.metrics.published(queue, jobs, is_delayed);
            }
        }
    }

    /// Prepares for a publish that waits for this durability.
    ///
    /// # Errors
    /// Redis cannot confirm writes to disk, as it is too old or has no append-only file; or it does not reply.
    pub(super) async fn prepare_durability(
        &self,
        target: DurabilityTarget,
    ) -> Result<(), EngineError> {
        if target.durability.fsync {
            let check = || self.store.check_durability(Durability::FSYNC);
            let checked = self.confirms_disk.get_or_try_init(|| async {
                check().await.map_err(|error| match error {
                    ConnectError::Refused(_) => EngineError::DiskUnconfirmed,
                    _ => EngineError::StorageFailed,
                })
            });
            Box::pin(checked).await?;
        }
        target.prepare(&self.store);
        Ok(())
    }
}
