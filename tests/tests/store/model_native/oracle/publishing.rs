//! The outcome of each job that is published with a key or an idempotency key.

use tidegate_core::v1::publish::PublishResult;
use tidegate_core::{IfExists, JobId, JobState, KeyHash};
use tidegate_store::PublishRefusal;

use super::{JobVersion, ModelJob, NativeModel};

/// How long a request may be repeated, in ms.
pub(in super::super) const WINDOW_MS: u64 = 600_000;

/// The job of the first request with an idempotency key.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct FirstRequest {
    id: JobId,
    request: u64,
    generation: u64,
}

/// A job to be published, as the model needs it.
#[derive(Debug, Clone)]
pub(in super::super) struct PlannedJob {
    pub(in super::super) key: Option<KeyHash>,
    pub(in super::super) if_exists: IfExists,
    pub(in super::super) request: Option<(u8, u64)>,
    pub(in super::super) version: JobVersion,
    /// Whether the client waits for the end of the job.
    pub(in super::super) is_awaited: bool,
}

/// What becomes of a job: the outcome, whether the request is a repeated one, and the id of the job that has the key.
type Planned = Result<(PublishResult, bool, JobId), PublishRefusal>;

impl NativeModel {
    /// How many more jobs a queue may have. Expired jobs count until they are deleted, jobs that are done do not.
    pub(in super::super) fn room(&self, queue: usize, max_jobs: Option<u64>) -> i64 {
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

    fn repeated(&mut self, queue: usize, job: &PlannedJob) -> Option<Planned> {
        let (key, request) = job.request?;
        let first = *self.requests.get(&(queue, key))?;
        if self.now_ms / WINDOW_MS > first.generation + 1 {
            return None;
        }
        if first.request != request {
            return Some(Err(PublishRefusal::KeyReused));
        }
        if let Some((_, first)) = self.live(queue, first.id.into()) {
            first.await_end(job.is_awaited);
        }
        Some(Ok((PublishResult::Created, true, first.id)))
    }

    /// Publishes one job; `created` is the id that it has if it is new. Returns what becomes of it.
    pub(in super::super) fn publish_one(
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
            None if *room < 1 => Err(PublishRefusal::QueueFull),
            None => {
                *room -= 1;
                let old = job.key.and_then(|key| self.named(queue, key.into()));
                old.into_iter().for_each(|old| self.make_way(old));
                let id = created();
                self.create(queue, id, &job.version, None, job.is_awaited);
                Ok((PublishResult::Created, false, id))
            }
        };
        if let (Some((key, request)), Ok((_, _, id))) = (job.request, planned) {
            let first = FirstRequest {
                id,
                request,
                generation: self.now_ms / WINDOW_MS,
            };
            self.requests.insert((queue, key), first);
        }
        planned
    }

    /// Another job gets the key of this one, which is done or expired. If it is done and a client may still fetch its
    /// result it stays.
    fn make_way(&mut self, id: JobId) {
        let now_ms = self.now_ms;
        let job = self.jobs.get_mut(&id).expect("a job with the key");
        if job.is_awaited && !job.is_expired(now_ms) {
            assert_eq!(job.state, JobState::Done);
            job.has_key = false;
        } else {
            self.delete(id);
        }
    }

    /// Adds a new job; with `tries` it is one of lmstfy.
    pub(in super::super) fn create(
        &mut self,
        queue: usize,
        id: JobId,
        version: &JobVersion,
        tries: Option<u16>,
        is_awaited: bool,
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
            is_awaited,
            has_key: true,
            result: None,
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
            _ if job.state == JobState::Dead => PublishResult::Revived,
            IfExists::Reject => return Err(PublishRefusal::KeyTaken),
            IfExists::Replace if is_running => PublishResult::Rerun,
            IfExists::Keep if is_running && job.cancel_requested => PublishResult::Rerun,
            IfExists::Keep => {
                job.await_end(planned.is_awaited);
                return Ok((PublishResult::Exists, false, id));
            }
            IfExists::Replace => PublishResult::Replaced,
        };
        if outcome == PublishResult::Rerun {
            (job.next, job.cancel_requested) = (Some(version), false);
        } else {
            job.start(version, now_ms);
        }
        job.await_end(planned.is_awaited);
        Ok((outcome, false, id))
    }
}
