//! The steps that publish.

use tidegate_core::v1::publish::PublishResult;
use tidegate_core::{JobId, JobState, KeyHash, NativeOptions, NewJob, RecordExtension};
use tidegate_store::{
    IdempotentRequest, JobReference, KeyPlace, KeyedCall, PublishJob, PublishReply,
};

use super::NativeRun;
use super::oracle::{JobVersion, ModelJob, PlannedJob, WINDOW_MS};
use super::steps::{DueSpec, JobSpec, NameSpec};
use crate::fixture::job;

impl NativeRun<'_> {
    fn version(&mut self, queue: usize, spec: &JobSpec, is_native: bool) -> JobVersion {
        self.versions += 1;
        let now_ms = self.model.now_ms;
        let due_ms = match spec.due {
            DueSpec::InMs(delay_ms) => now_ms + delay_ms,
            DueSpec::Offset(ms) => now_ms.saturating_add_signed(ms).max(now_ms),
        };
        let extension = RecordExtension {
            key_hash: spec.key.map(|key| self.key(queue, key).0),
            group_hash: None,
            lease_ms: spec.lease_ms,
            max_attempts: spec.max_attempts,
            retry: spec.retry.clone(),
            retain_ms: spec.retain_ms,
        };
        let from_ms = if is_native { due_ms } else { now_ms };
        let is_limited = spec.start_within_ms > 0;
        JobVersion {
            body: spec.content.bytes(self.versions),
            extension: if is_native {
                extension
            } else {
                RecordExtension::default()
            },
            priority: if is_native { spec.priority } else { 0 },
            due_ms,
            expires_ms: u64::from(is_limited) * (from_ms + spec.start_within_ms),
        }
    }

    fn new_job(&self, spec: &JobSpec, version: &JobVersion, tries: Option<u16>) -> NewJob {
        let now_ms = self.model.now_ms;
        let (delay_ms, run_at_ms) = match spec.due {
            DueSpec::InMs(delay_ms) => (delay_ms, None),
            DueSpec::Offset(ms) => (
                version.due_ms - now_ms,
                Some(now_ms.saturating_add_signed(ms)),
            ),
        };
        let native = NativeOptions {
            run_at_ms,
            is_awaited: spec.is_awaited,
            priority: version.priority,
            extension: version.extension.clone(),
            ..NativeOptions::default()
        };
        NewJob {
            body: version.body.clone(),
            delay_ms,
            ttl_ms: spec.start_within_ms,
            tries: tries.unwrap_or(0),
            native: tries.is_none().then(|| Box::new(native)),
            ..job("")
        }
    }

    pub(super) async fn publish(
        &mut self,
        queue: usize,
        specs: &[JobSpec],
        tries: Option<u16>,
        max_jobs: Option<u64>,
        replaces: Option<usize>,
    ) {
        let mut versions = Vec::new();
        for spec in specs {
            versions.push(self.version(queue, spec, tries.is_none()));
        }
        let jobs = specs.iter().zip(&versions);
        let jobs: Vec<NewJob> = jobs
            .map(|(spec, version)| self.new_job(spec, version, tries))
            .collect();
        let name = replaces.map(NameSpec::Published);
        let replaced = name.and_then(|name| match self.named(queue, name)? {
            JobReference::Id(id) => Some(id),
            JobReference::Key(..) => None,
        });
        let store = self.store();
        let published = store.try_publish(&self.queues[queue], &jobs, replaced, max_jobs);
        let published = published.await.unwrap();
        let old = replaced.and_then(|id| self.model.named(queue, id.into()));
        let room = self.model.room(queue, max_jobs);
        let room = room.saturating_add(old.is_some().into());
        if (room.max(0).cast_unsigned() as usize) < jobs.len() {
            let expected = room.max(0).cast_unsigned();
            assert!(
                matches!(published, PublishReply::QueueFull { room } if room == expected),
                "{published:?}, room for {expected}"
            );
            return;
        }
        old.into_iter().for_each(|id| self.model.delete(id));
        let stored = published.stored().expect("there is room");
        let stored = stored.into_iter().zip(specs).zip(&versions);
        for ((stored, spec), version) in stored {
            let id = stored.id;
            let is_awaited = tries.is_none() && spec.is_awaited;
            self.model.create(queue, id, version, tries, is_awaited);
            self.published.push((queue, id));
        }
    }

    pub(super) async fn publish_keyed(
        &mut self,
        queue: usize,
        specs: &[JobSpec],
        max_jobs: Option<u64>,
        atomic: bool,
    ) {
        let (mut planned, mut jobs) = (Vec::new(), Vec::new());
        for spec in specs {
            let version = self.version(queue, spec, true);
            let text = |key| format!("request-{key}");
            jobs.push(PublishJob {
                job: self.new_job(spec, &version, None),
                if_exists: spec.if_exists,
                idempotency: spec.request.map(|(key, request)| IdempotentRequest {
                    key: KeyHash::of_request(&self.queues[queue], &text(key)),
                    request,
                }),
            });
            planned.push(PlannedJob {
                key: spec.key.map(|key| self.key(queue, key)),
                if_exists: spec.if_exists,
                request: spec.request,
                version,
                is_awaited: spec.is_awaited,
            });
        }
        let call = call(max_jobs, atomic);
        let store = self.store();
        let published = store.publish_keyed(&self.queues[queue], jobs, call).await;
        let (before, mut room) = (self.model.clone(), self.model.room(queue, max_jobs));
        let results = match published.unwrap() {
            PublishReply::Done { jobs, .. } => jobs,
            PublishReply::Refused { index, refusal } => {
                let made_up = |index| JobId::new(0, 0, 1 << 40 | index as u64, 0);
                let outcomes = planned.iter().enumerate().map(|(index, job)| {
                    self.model
                        .publish_one(queue, job, &mut room, || made_up(index))
                });
                let outcomes: Vec<_> = outcomes.collect();
                let first = outcomes.iter().position(|outcome| outcome.is_err());
                assert_eq!((atomic, first), (true, Some(index)), "{outcomes:?}");
                assert_eq!(outcomes[index], Err(refusal));
                self.model = before;
                self.note("publish_keyed atomic", &refusal);
                return;
            }
            other => panic!("{other:?}"),
        };
        for (result, job) in results.iter().zip(&planned) {
            let id = || result.expect("a created job").id;
            let planned = self.model.publish_one(queue, job, &mut room, id);
            let shown = result.map(|stored| (stored.outcome, stored.replayed, stored.id));
            assert_eq!(shown, planned, "{results:?}");
            let (Ok(stored), Ok((outcome, replayed, id))) = (result, planned) else {
                self.note("publish_keyed", &planned.unwrap_err());
                assert!(!atomic, "a part of an atomic call: {results:?}");
                continue;
            };
            match replayed {
                true => self.note("publish_keyed", &format_args!("Replayed")),
                false => self.note("publish_keyed", &outcome),
            }
            let model = self.model.jobs.get(&id);
            let now_ms = self.model.now_ms;
            let live = model.filter(|job| !job.is_expired(now_ms));
            let shown = stored.state.map(|state| (state, stored.run_at_ms));
            let run_at_ms = |job: &ModelJob| match job.state {
                _ if outcome == PublishResult::Rerun => job.next.as_ref().map(|next| next.due_ms),
                JobState::Leased | JobState::Done => None,
                _ => Some(job.version.due_ms),
            };
            assert_eq!(shown, live.map(|job| (job.state, run_at_ms(job))));
            self.published.push((queue, id));
        }
    }
}

const fn call(max_jobs: Option<u64>, atomic: bool) -> KeyedCall {
    KeyedCall {
        max_jobs,
        is_closed: false,
        place: KeyPlace::FIRST_LANE,
        asks: false,
        idempotency_window_ms: WINDOW_MS,
        atomic,
    }
}
