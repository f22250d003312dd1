//! The outcome of each job that is published with a key or an idempotency key.

use tidegate_core::{JobId, JobState, KeyHash};
use tidegate_store::{IfExists, KeyedOutcome};

use super::oracle::{JobVersion, ModelJob, NativeModel};

/// How long a request may be repeated, in ms.
pub(super) const WINDOW_MS: u64 = 600_000;

/// The job of the first request with an idempotency key.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstRequest {
    id: JobId,
    request: u64,
    generation: u64,
}

/// A job to be published, as the model needs it.
#[derive(Debug, Clone)]
pub(super) struct PlannedJob {
    pub(super) key: Option<KeyHash>,
    pub(super) if_exists: IfExists,
    pub(super) request: Option<(u8, u64)>,
    pub(super) version: JobVersion,
}

/// What becomes of a job: the outcome, and the id of its job unless it was refused or created.
type Planned = (KeyedOutcome, Option<JobId>);

impl NativeModel {
    /// How many more jobs a queue may have. Expired jobs count until they are deleted, jobs that are done do not.
    pub(super) fn room(&self, queue: usize, max_jobs: Option<u64>) -> i64 {
        let jobs = self.jobs.values();
        let counted = jobs.filter(|job| job.queue == queue && job.state != JobState::Done);
        max_jobs.map_or(i64::MAX, |max| max.cast_signed()) - counted.count().cast_signed() as i64
    }

    /// The unexpired job with this key; none if it is done and to be replaced.
    fn existing(&self, queue: usize, key: KeyHash, if_exists: IfExists) -> Option<JobId> {
        let id = self.named(queue, key.into())?;
        let job = &self.jobs[&id];
        let is_replaced = job.state == JobState::Done && if_exists == IfExists::Replace;
        (!job.is_expired(self.now_ms) && !is_replaced).then_some(id)
    }

    fn repeated(&self, queue: usize, job: &PlannedJob) -> Option<Planned> {
        let (key, request) = job.request?;
        let first = self.requests.get(&(queue, key))?;
        if self.now_ms / WINDOW_MS > first.generation + 1 {
            return None;
        }
        Some(if first.request == request {
            (KeyedOutcome::Replayed, Some(first.id))
        } else {
            (KeyedOutcome::KeyReused, None)
        })
    }

    /// Publishes one job; `created` is the id that it has if it is new. Returns what becomes of it.
    pub(super) fn publish_one(
        &mut self,
        queue: usize,
        job: &PlannedJob,
        room: &mut i64,
        created: impl FnOnce() -> JobId,
    ) -> Planned {
        if let Some(planned) = self.repeated(queue, job) {
            return planned;
        }
        let existing = job
            .key
            .and_then(|key| self.existing(queue, key, job.if_exists));
        let planned = match existing {
            Some(id) => self.publish_existing(id, job),
            None if *room < 1 => (KeyedOutcome::QueueFull, None),
            None => {
                *room -= 1;
                let old = job.key.and_then(|key| self.named(queue, key.into()));
                old.and_then(|old| self.jobs.remove(&old));
                let id = created();
                self.create(queue, id, &job.version, None);
                (KeyedOutcome::Created, Some(id))
            }
        };
        if let ((key, request), Some(id)) = (job.request.unwrap_or_default(), planned.1)
            && job.request.is_some()
        {
            let first = FirstRequest {
                id,
                request,
                generation: self.now_ms / WINDOW_MS,
            };
            self.requests.insert((queue, key), first);
        }
        planned
    }

    /// Adds a new job; with `tries` it is one of lmstfy.
    pub(super) fn create(
        &mut self,
        queue: usize,
        id: JobId,
        version: &JobVersion,
        tries: Option<u16>,
    ) {
        let now_ms = self.now_ms;
        let mut job = ModelJob {
            queue,
            is_native: tries.is_none(),
            state: JobState::Ready,
            version: version.clone(),
            attempt: 0,
            tries: tries.unwrap_or(0),
            failures: 0,
            losses: 0,
            cancel_requested: false,
            next: None,
            history: Vec::new(),
        };
        job.start(version.clone(), now_ms);
        assert!(self.jobs.insert(id, job).is_none(), "{id} twice");
    }

    fn publish_existing(&mut self, id: JobId, planned: &PlannedJob) -> Planned {
        let now_ms = self.now_ms;
        let job = self.jobs.get_mut(&id).expect("an existing job");
        let version = planned.version.clone();
        let is_running = job.state == JobState::Leased;
        let outcome = match planned.if_exists {
            _ if job.state == JobState::Dead => KeyedOutcome::Revived,
            IfExists::Reject => return (KeyedOutcome::KeyTaken, None),
            IfExists::Replace if is_running => KeyedOutcome::Rerun,
            IfExists::Keep if is_running && job.cancel_requested => KeyedOutcome::Rerun,
            IfExists::Keep => return (KeyedOutcome::Exists, Some(id)),
            IfExists::Replace => KeyedOutcome::Replaced,
        };
        if outcome == KeyedOutcome::Rerun {
            (job.next, job.cancel_requested) = (Some(version), false);
        } else {
            job.start(version, now_ms);
        }
        (outcome, Some(id))
    }
}
