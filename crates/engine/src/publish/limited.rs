//! Publishing to a namespace that limits its jobs, or how many are published in a second.

use std::sync::Arc;

use tidegate_core::v1::publish::PublishResult;
use tidegate_core::{NamespaceLimits, QueueKey};
use tidegate_store::{NamespaceFull, PublishJob, PublishRefusal};

use super::batch::items::Intake;
use super::{JobsToPublish, Published};
use crate::error::EngineError;
use crate::namespaces::job_room::{JobRoom, StoredJobs};
use crate::pool::Pool;
use crate::units::RateUnits;

/// What a publish has taken of the limits of its namespace.
struct Admission {
    /// How many of its jobs may be stored, from the first one on.
    jobs: usize,
    /// Why the others may not.
    refusal: Option<EngineError>,
    /// How many of the others have units, and may replace jobs.
    others: usize,
    /// Why the rest of them may not.
    limited: EngineError,
    room: Option<JobRoom>,
    units: Option<RateUnits>,
}

impl Pool {
    /// Publishes as [`Pool::publish`] does, with room for the jobs and units for them. If the publish is not atomic, as
    /// many jobs are stored as there is room for.
    pub(super) async fn publish_limited(
        self: &Arc<Self>,
        queue: &QueueKey,
        publish: JobsToPublish,
        limits: NamespaceLimits,
    ) -> Result<Published, EngineError> {
        let admission = self.admit(queue, &publish, limits).await;
        let (units, published) = match admission {
            Ok(mut admission) => {
                let units = admission.units.take();
                let published = self.publish_admitted(queue, publish, admission).await;
                (units, published)
            }
            Err(error) => (None, Err(error)),
        };
        let refusal = match &published {
            Ok(published) => published.jobs.iter().find_map(|job| job.err()),
            Err(error) => Some(*error),
        };
        if let Some(limit) = refusal.and_then(EngineError::limit_of_namespace) {
            self.metrics.refused_by_limit(&queue.namespace, limit);
        }
        if let Some(units) = units {
            let used = match &published {
                Ok(published) => {
                    let stored = published.jobs.iter().filter(|job| job.is_ok());
                    stored.count() as u64 + uncertain(published)
                }
                // They may be stored.
                Err(EngineError::StorageFailed) => u64::MAX,
                Err(_) => 0,
            };
            units.give_back(self.store_of_new_jobs(), used).await;
        }
        published
    }

    async fn publish_admitted(
        self: &Arc<Self>,
        queue: &QueueKey,
        mut publish: JobsToPublish,
        admission: Admission,
    ) -> Result<Published, EngineError> {
        let mut rest = JobsToPublish {
            jobs: publish.jobs.split_off(admission.jobs),
            ..publish
        };
        let Some(refusal) = admission.refusal else {
            let published = self.publish_anywhere(queue, publish).await;
            complete(admission.room, &published);
            return published;
        };
        let without_units = rest.jobs.split_off(admission.others.min(rest.jobs.len()));
        if publish.jobs.is_empty() && without_units.is_empty() {
            return self.publish_to_full(queue, rest, refusal).await;
        }
        let mut published = Published {
            jobs: Vec::new(),
            durability: Ok(publish.durability.durability),
        };
        if !publish.jobs.is_empty() {
            let stored = self.publish_anywhere(queue, publish).await;
            complete(admission.room, &stored);
            published = stored?;
        }
        let others = rest.jobs.len();
        match self.publish_to_full(queue, rest, refusal).await {
            Ok(rest) => {
                published.jobs.extend(rest.jobs);
                if rest.durability.is_err() {
                    published.durability = rest.durability;
                }
            }
            Err(error) => published.jobs.extend(vec![Err(error); others]),
        }
        let limited = vec![Err(admission.limited); without_units.len()];
        published.jobs.extend(limited);
        Ok(published)
    }

    /// Takes room and units for a publish.
    ///
    /// # Errors
    /// The namespace publishes more in a second than it may.
    async fn admit(
        self: &Arc<Self>,
        queue: &QueueKey,
        publish: &JobsToPublish,
        limits: NamespaceLimits,
    ) -> Result<Admission, EngineError> {
        let namespace = &queue.namespace;
        let wanted = publish.jobs.len() as u64;
        let least = if publish.atomic { wanted } else { 1 };
        // The job that these replace is deleted in the same step.
        let replaced = u64::from(publish.replaces.is_some()).min(wanted);
        let new = wanted - replaced;
        let (mut room, mut refusal) = (None, None);
        if let Some(max) = limits.jobs.filter(|_| new > 0) {
            let least = least.saturating_sub(replaced);
            match self.take_job_room(namespace, max, (least, new)).await {
                Ok(taken) => room = Some(taken),
                Err(full) => refusal = Some(EngineError::NamespaceFull(full)),
            }
        }
        let has_room = room.as_ref().map_or(new, JobRoom::jobs) + replaced;
        if let Some(max) = limits.jobs.filter(|_| has_room < wanted) {
            refusal = Some(EngineError::NamespaceFull(NamespaceFull::of_jobs(max)));
        }
        let mut admitted = if room.is_none() && refusal.is_some() {
            0
        } else {
            has_room
        };
        let (mut units, mut others) = (None, u64::MAX);
        let limited = EngineError::PublishesLimited {
            max: limits.publishes_per_second.unwrap_or(u64::MAX),
            retry_ms: Some(1000),
        };
        if let Some(max) = limits.publishes_per_second {
            // Those without room may replace jobs, which takes units as well.
            let taking = self.take_publish_units(namespace, max, (least, wanted));
            match taking.await {
                Ok(taken) => {
                    others = taken.count.saturating_sub(admitted);
                    if taken.count < admitted {
                        admitted = taken.count;
                        refusal = Some(limited);
                    }
                    units = Some(taken);
                }
                Err(error) => {
                    complete(room, &Err(error));
                    return Err(error);
                }
            }
        }
        Ok(Admission {
            jobs: usize::try_from(admitted).unwrap_or(usize::MAX),
            refusal,
            others: usize::try_from(others).unwrap_or(usize::MAX),
            limited,
            room,
            units,
        })
    }

    /// Publishes jobs that have no room: jobs with keys may replace others, and a request may be repeated.
    async fn publish_to_full(
        self: &Arc<Self>,
        queue: &QueueKey,
        publish: JobsToPublish,
        refusal: EngineError,
    ) -> Result<Published, EngineError> {
        let is_full = matches!(refusal, EngineError::NamespaceFull(_));
        let may_replace = publish.jobs.iter().any(PublishJob::is_keyed);
        if !is_full || !may_replace || self.target().is_some() {
            return Err(refusal);
        }
        let published = self.publish_keyed(queue, publish, Intake::Full).await;
        let mut published = published.map_err(|error| match error {
            EngineError::QueueFull
            | EngineError::JobRefused {
                refusal: PublishRefusal::QueueFull,
                ..
            } => refusal,
            other => other,
        })?;
        for job in &mut published.jobs {
            if *job == Err(EngineError::QueueFull) {
                *job = Err(refusal);
            }
        }
        match published.jobs.iter().all(|job| *job == Err(refusal)) {
            true => Err(refusal),
            false => Ok(published),
        }
    }
}

/// How many of these jobs may be stored although there was no answer.
fn uncertain(published: &Published) -> u64 {
    let failed = published.jobs.iter();
    let failed = failed.filter(|job| **job == Err(EngineError::StorageFailed));
    failed.count() as u64
}

/// Gives back room that was not used.
fn complete(room: Option<JobRoom>, published: &Result<Published, EngineError>) {
    let stored = match published {
        Ok(published) => {
            let stored = published.jobs.iter().flatten();
            let added = stored.filter(|job| job.outcome == PublishResult::Created && !job.replayed);
            StoredJobs {
                added: added.count() as u64,
                uncertain: uncertain(published),
            }
        }
        Err(error) => StoredJobs {
            added: 0,
            uncertain: match error {
                EngineError::StorageFailed => u64::MAX,
                _ => 0,
            },
        },
    };
    if let Some(room) = room {
        room.complete(stored);
    }
}
