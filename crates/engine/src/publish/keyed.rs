//! Publishing jobs with keys, each in the lane of its key. A lane or deployment that may have a job with the key is asked
//! first: it changes that job, and creates none (`docs/decisions/0086-keys-on-lanes.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;
use tidegate_core::{Durability, KeyPlacement, QueueKey};
use tidegate_store::{
    DurabilityError, KeyPlace, PublishJob, PublishRefusal, PublishReply, StoreError, StoredJob,
};

use super::lane_answer::{DoneJob, LaneAnswer, done_of, is_absent, stores_none};
use super::{JobsToPublish, Published};
use crate::error::EngineError;
use crate::pool::Pool;
use crate::publish::batch::items::{Intake, KeyedBatchKey, LaneCall, PublishItem};
use crate::publish::durability::DurabilityTarget;
use crate::publish::size::{BATCHED_BYTES_MAX, PublishSize};
use crate::queue::lanes::PLACEMENTS_MAX;

/// Jobs with keys that are being published.
struct KeyedPublish<'a> {
    queue: &'a QueueKey,
    atomic: bool,
    intake: Intake,
    target: DurabilityTarget,
    /// The jobs without a result, with their places in the request.
    pending: Vec<(usize, PublishJob)>,
    results: Vec<Result<StoredJob, EngineError>>,
    durability: Result<Durability, DurabilityError>,
    /// Jobs that are done and have the keys of the published ones: they lose them once the published ones are stored.
    done: Vec<DoneJob<'a>>,
}

impl KeyedPublish<'_> {
    fn call(&self, lane: u16, placement: KeyPlacement, asks: bool) -> LaneCall {
        LaneCall {
            place: KeyPlace { lane, placement },
            asks,
            atomic: self.atomic,
            intake: self.intake,
        }
    }

    /// The lane for jobs without keys in a batch that has jobs with keys: the lane of the first key.
    fn lane_beside(&self, placement: KeyPlacement) -> u16 {
        let keyed = self.pending.iter().filter(|(_, job)| job.is_keyed());
        let mut hashes = keyed.filter_map(|(_, job)| job.lane_hash());
        hashes.next().map_or(0, |hash| placement.lane_of(hash))
    }

    /// Takes the keys from jobs that are done and have a stored successor. If this is not called, or fails, the key finds
    /// the done job until that is no longer kept, or until a publish with `replace` is answered.
    async fn replace_done(&self) {
        // A replayed job that has ended may be older than the done one.
        let is_stored = |index: usize| {
            self.results[index].is_ok_and(|job| !job.replayed || job.is_unfinished())
        };
        let replaced = self.done.iter().filter(|done| is_stored(done.index));
        let calls = replaced.map(|done| done.pool.store.replace_done(self.queue, done.id));
        for error in join_all(calls).await.into_iter().filter_map(Result::err) {
            let queue = self.queue;
            tracing::warn!(%queue, %error, "failed to take the key from a job that is done and replaced");
        }
    }
}

impl Pool {
    /// Publishes jobs with keys. In a pool that moves, jobs that its own deployment has are changed there.
    pub(super) async fn publish_keyed(
        self: &Arc<Self>,
        queue: &QueueKey,
        publish: JobsToPublish,
        intake: Intake,
    ) -> Result<Published, EngineError> {
        let placement = self.lanes.placement(queue);
        if self.target().is_none() && placement.is_first_lane() {
            let call = LaneCall {
                place: KeyPlace { lane: 0, placement },
                asks: false,
                atomic: publish.atomic,
                intake,
            };
            let jobs = publish.jobs.clone();
            let publishing = self.publish_in_lane(queue, jobs, call, publish.durability);
            if let Some(answer) = publishing.await? {
                return Ok(answer.published);
            }
        }
        Box::pin(self.publish_placed(queue, publish, intake)).await
    }

    async fn publish_placed(
        self: &Arc<Self>,
        queue: &QueueKey,
        publish: JobsToPublish,
        intake: Intake,
    ) -> Result<Published, EngineError> {
        let target = publish.durability;
        let mut publishing = KeyedPublish {
            queue,
            atomic: publish.atomic,
            intake,
            target,
            results: vec![Err(EngineError::StorageFailed); publish.jobs.len()],
            pending: publish.jobs.into_iter().enumerate().collect(),
            durability: Ok(target.durability),
            done: Vec::new(),
        };
        for pool in [self].into_iter().chain(self.target()) {
            pool.publish_in_lanes(&mut publishing).await?;
        }
        publishing.replace_done().await;
        Ok(Published {
            jobs: publishing.results,
            durability: publishing.durability,
        })
    }

    /// Publishes the jobs that have no result yet in this deployment. If it moves, it creates none.
    async fn publish_in_lanes<'a>(
        self: &'a Arc<Self>,
        publishing: &mut KeyedPublish<'a>,
    ) -> Result<(), EngineError> {
        for _ in 0..PLACEMENTS_MAX {
            if publishing.pending.is_empty() {
                return Ok(());
            }
            let placement = self.lanes.placement(publishing.queue);
            let is_current = match publishing.atomic {
                true => self.publish_together(publishing, placement).await?,
                false => self.publish_by_lanes(publishing, placement).await,
            };
            if is_current {
                return Ok(());
            }
        }
        let queue = publishing.queue;
        tracing::warn!(%queue, "failed to publish jobs with keys: the number of lanes changes all the time");
        if publishing.atomic {
            return Err(EngineError::StorageRefused);
        }
        // Others of these jobs may be stored.
        for (index, _) in std::mem::take(&mut publishing.pending) {
            publishing.results[index] = Err(EngineError::StorageRefused);
        }
        Ok(())
    }

    /// Publishes jobs lane by lane. Returns whether the placement is current: the jobs without a result are not in this
    /// deployment.
    async fn publish_by_lanes<'a>(
        self: &'a Arc<Self>,
        publishing: &mut KeyedPublish<'a>,
        placement: KeyPlacement,
    ) -> bool {
        for round in 0..placement.numbers.formers().count() {
            let former = |job: &PublishJob| {
                let hash = job.lane_hash().filter(|_| job.is_keyed())?;
                placement.former_lanes_of(hash).get(round).copied()
            };
            if !self
                .publish_round(publishing, placement, true, former)
                .await
            {
                return false;
            }
        }
        let asks = self.target().is_some();
        let beside = publishing.lane_beside(placement);
        let present = |job: &PublishJob| match job.lane_hash() {
            _ if asks && !job.is_keyed() => None,
            Some(hash) => Some(placement.lane_of(hash)),
            None => Some(beside),
        };
        self.publish_round(publishing, placement, asks, present)
            .await
    }

    /// One call to each lane that `lane_of` returns for a job. Returns whether the placement is current.
    async fn publish_round<'a>(
        self: &'a Arc<Self>,
        publishing: &mut KeyedPublish<'a>,
        placement: KeyPlacement,
        asks: bool,
        lane_of: impl Fn(&PublishJob) -> Option<u16>,
    ) -> bool {
        let mut groups: BTreeMap<u16, Vec<(usize, PublishJob)>> = BTreeMap::new();
        let mut left = Vec::new();
        for (index, job) in std::mem::take(&mut publishing.pending) {
            match lane_of(&job) {
                Some(lane) => groups.entry(lane).or_default().push((index, job)),
                None => left.push((index, job)),
            }
        }
        let (queue, target) = (publishing.queue, publishing.target);
        let calls = groups.into_iter().map(|(lane, group)| {
            let call = publishing.call(lane, placement, asks);
            let jobs = group.iter().map(|(_, job)| job.clone()).collect();
            async move {
                let published = self.publish_in_lane(queue, jobs, call, target).await;
                (group, published)
            }
        });
        let mut is_current = true;
        for (group, published) in join_all(calls).await {
            match published {
                Ok(Some(answer)) => {
                    publishing.done.extend(answer.done_jobs(self, &group));
                    let published = answer.published;
                    if published.durability.is_err() {
                        publishing.durability = published.durability;
                    }
                    for ((index, job), result) in group.into_iter().zip(published.jobs) {
                        match asks && is_absent(&result) {
                            true => left.push((index, job)),
                            false => publishing.results[index] = result,
                        }
                    }
                }
                Ok(None) => {
                    is_current = false;
                    left.extend(group);
                }
                Err(error) => {
                    for (index, _) in group {
                        publishing.results[index] = Err(error);
                    }
                }
            }
        }
        left.sort_unstable_by_key(|(index, _)| *index);
        publishing.pending = left;
        is_current
    }

    /// Publishes all jobs or none. Each lane that may have one of them is asked for all of them.
    async fn publish_together<'a>(
        self: &'a Arc<Self>,
        publishing: &mut KeyedPublish<'a>,
        placement: KeyPlacement,
    ) -> Result<bool, EngineError> {
        let creates = self.target().is_none();
        let jobs: Vec<PublishJob> = publishing.pending.iter().map(|it| it.1.clone()).collect();
        let keyed = || jobs.iter().filter(|job| job.is_keyed());
        let hashes = || keyed().filter_map(PublishJob::lane_hash);
        let present: BTreeSet<u16> = hashes().map(|hash| placement.lane_of(hash)).collect();
        let formers = hashes().flat_map(|hash| placement.former_lanes_of(hash));
        let mut asked: BTreeSet<u16> = formers.collect();
        let own = present.first().copied().unwrap_or(0);
        let are_together = present.len() <= 1;
        match creates {
            true if are_together => drop(asked.remove(&own)),
            true => {}
            false => asked.extend(&present),
        }
        let calls = asked.into_iter().map(|lane| (lane, true));
        for (lane, asks) in calls.chain(creates.then_some((own, false))) {
            if !asks && !are_together {
                return Err(EngineError::SeveralLanes);
            }
            let call = publishing.call(lane, placement, asks);
            let published =
                self.publish_in_lane(publishing.queue, jobs.clone(), call, publishing.target);
            match published.await {
                Ok(None) => return Ok(false),
                Ok(Some(answer)) if asks && answer.is_empty() => {
                    let done = answer.done_jobs(self, &publishing.pending);
                    publishing.done.extend(done);
                }
                Ok(Some(LaneAnswer { published, .. })) => {
                    publishing.pending.clear();
                    publishing.results = published.jobs;
                    publishing.durability = published.durability;
                    return Ok(true);
                }
                Err(EngineError::JobRefused { refusal, .. })
                    if asks && refusal == PublishRefusal::QueueClosed => {}
                Err(EngineError::JobRefused { refusal, .. })
                    if asks && refusal == PublishRefusal::QueueFull =>
                {
                    return Err(match creates {
                        true => EngineError::SeveralLanes,
                        false => EngineError::PoolMoves,
                    });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Publishes jobs in a lane, small ones together with jobs of other requests. `None` = the lane refused the
    /// placement, or was closed: nothing was stored, and the placement is renewed.
    async fn publish_in_lane(
        self: &Arc<Self>,
        queue: &QueueKey,
        jobs: Vec<PublishJob>,
        call: LaneCall,
        target: DurabilityTarget,
    ) -> Result<Option<LaneAnswer>, EngineError> {
        let size = PublishSize::of(jobs.iter().map(|job| &job.job));
        let room = self.backlog.take(size)?;
        self.prepare_durability(target).await?;
        let published =
            if call.atomic || call.intake == Intake::Closed || size.bytes > BATCHED_BYTES_MAX {
                let keyed_call = self.keyed_call(queue, call);
                let published = Box::pin(self.store.publish_keyed(queue, jobs, keyed_call)).await;
                drop(room);
                published
            } else {
                let key = KeyedBatchKey {
                    queue: queue.clone(),
                    call,
                };
                let item = PublishItem { jobs, room };
                self.publishing_keyed.submit(self, &key, item).await
            };
        let KeyPlace { lane, placement } = call.place;
        let done = match &published {
            Ok(PublishReply::Done { jobs, .. }) if call.asks => done_of(jobs),
            _ => Vec::new(),
        };
        let renewed = match published {
            Err(StoreError::PlacementStale(floor)) => {
                Box::pin(self.lanes.renew(queue, placement, floor)).await
            }
            Ok(PublishReply::LaneClosed) => {
                Box::pin(self.lanes.reopen(queue, lane, placement)).await
            }
            Ok(PublishReply::Done { ref jobs, .. }) if call.asks && stores_none(jobs) => {
                let jobs = jobs.iter().map(|job| job.map_err(EngineError::from));
                let published = Published {
                    jobs: jobs.collect(),
                    durability: Ok(target.durability),
                };
                return Ok(Some(LaneAnswer { published, done }));
            }
            published => {
                let published = self.published(queue, published, target).await?;
                return Ok(Some(LaneAnswer { published, done }));
            }
        };
        renewed.map_err(EngineError::of_publish)?;
        Ok(None)
    }
}
