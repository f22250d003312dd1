//! The jobs that must be in Redis, and the outcome of each verb on them. It knows the documented rules, and nothing of
//! lists, timers and indexes.

mod consuming;
mod managing;
mod publishing;

use std::collections::BTreeMap;

use bytes::Bytes;
use tidegate_core::{JobId, JobState, KeyHash, RecordExtension};
use tidegate_store::{FailureEffect, JobReference, LeasedJob, LoggedFailure, NewResult};

use crate::fixture::LOSSES_MAX;

use self::publishing::FirstRequest;
pub(super) use self::{
    consuming::FailEffect,
    managing::ModelEnd,
    publishing::{PlannedJob, WINDOW_MS},
};

/// The number of failures of which a job keeps the history.
const HISTORY_MAX: usize = 10;

/// What a job is to be after a publish: its content and its times.
#[derive(Debug, Clone)]
pub(super) struct JobVersion {
    pub(super) body: Bytes,
    pub(super) extension: RecordExtension,
    pub(super) priority: u8,
    pub(super) due_ms: u64,
    pub(super) expires_ms: u64,
}

#[derive(Debug, Clone)]
pub(super) struct ModelJob {
    pub(super) queue: usize,
    /// Whether it counts failures instead of tries.
    pub(super) is_native: bool,
    pub(super) state: JobState,
    pub(super) version: JobVersion,
    pub(super) attempt: u32,
    pub(super) tries: u16,
    pub(super) failures: u16,
    pub(super) losses: u16,
    pub(super) cancel_requested: bool,
    /// Whether a client waits for its end, or has waited for it if it is done.
    pub(super) is_awaited: bool,
    /// Whether it is found by its key: another job may have got that of one that is done.
    pub(super) has_key: bool,
    /// The result of a job that is done.
    pub(super) result: Option<NewResult>,
    pub(super) next: Option<JobVersion>,
    pub(super) history: Vec<LoggedFailure>,
}

/// How a run ended that was not acknowledged.
#[derive(Debug, PartialEq, Eq)]
enum RunEnd {
    Rerun,
    Cancelled,
    /// Nothing was requested meanwhile.
    Plain,
}

/// Why a call about a delivery changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotHeld {
    Gone,
    Lost,
}

impl ModelJob {
    pub(super) fn key(&self) -> Option<KeyHash> {
        let hash = self.version.extension.key_hash.map(KeyHash);
        hash.filter(|_| self.has_key)
    }

    /// Its payload; once it is done, its result.
    pub(super) fn body(&self) -> &Bytes {
        let result = self.result.as_ref();
        result.map_or(&self.version.body, |result| &result.body)
    }

    /// Those of its result. The payloads of the test have none.
    pub(super) fn attributes(&self) -> &[(String, String)] {
        let result = self.result.as_ref();
        result.map_or(&[], |result| &result.attributes)
    }

    pub(super) const fn is_expired(&self, now_ms: u64) -> bool {
        self.version.expires_ms != 0 && self.version.expires_ms <= now_ms
    }

    pub(super) const fn waits(&self) -> bool {
        matches!(self.state, JobState::Delayed | JobState::Ready)
    }

    /// Sets the due time: the job is delayed until then, or ready now.
    pub(super) fn schedule(&mut self, due_ms: u64, now_ms: u64) {
        self.state = if due_ms > now_ms {
            JobState::Delayed
        } else {
            JobState::Ready
        };
        self.version.due_ms = due_ms.max(now_ms);
    }

    /// Gives the job a version; its counters start again, its attempts and its history continue.
    pub(super) fn start(&mut self, version: JobVersion, now_ms: u64) {
        let due_ms = version.due_ms;
        self.version = version;
        (self.failures, self.losses) = (0, 0);
        (self.cancel_requested, self.next) = (false, None);
        self.schedule(due_ms, now_ms);
    }

    /// A client waits for the end of the job from now on, if it `waits` and the job has not ended.
    fn await_end(&mut self, waits: bool) {
        let has_ended = matches!(self.state, JobState::Dead | JobState::Done);
        self.is_awaited |= waits && !has_ended;
    }

    fn log(&mut self, effect: FailureEffect, error: &str, now_ms: u64) {
        self.history.push(LoggedFailure {
            attempt: self.attempt,
            at_ms: now_ms,
            effect,
            error: error.to_owned(),
        });
        if self.history.len() > HISTORY_MAX {
            self.history.remove(0);
        }
    }
}

/// What must be in Redis.
#[derive(Debug, Default, Clone)]
pub(super) struct NativeModel {
    pub(super) now_ms: u64,
    /// Expired jobs stay until Redis has deleted them.
    pub(super) jobs: BTreeMap<JobId, ModelJob>,
    /// The numbers of the jobs that have ended while a client waited for that.
    pub(super) ended: Vec<u64>,
    /// By queue and idempotency key.
    pub(super) requests: BTreeMap<(usize, u8), FirstRequest>,
}

impl NativeModel {
    /// The job of a queue that a client names, expired or not.
    pub(super) fn named(&self, queue: usize, job: JobReference) -> Option<JobId> {
        let mut jobs = self.jobs.iter().filter(|(_, job)| job.queue == queue);
        let found = jobs.find(|(id, model)| match job {
            JobReference::Id(wanted) => **id == wanted,
            JobReference::Key(hash, _) => model.key() == Some(hash),
        });
        found.map(|(id, _)| *id)
    }

    /// The same, unless it is expired.
    fn live(&mut self, queue: usize, job: JobReference) -> Option<(JobId, &mut ModelJob)> {
        let (id, now_ms) = (self.named(queue, job)?, self.now_ms);
        let job = self.jobs.get_mut(&id)?;
        (!job.is_expired(now_ms)).then_some((id, job))
    }

    /// The job that a delivery holds.
    fn held(&mut self, queue: usize, leased: LeasedJob) -> Result<&mut ModelJob, NotHeld> {
        let job = self.live(queue, leased.id.into());
        let (_, job) = job.ok_or(NotHeld::Gone)?;
        match job.state {
            JobState::Done => Err(NotHeld::Gone),
            JobState::Leased if job.attempt == leased.attempt => Ok(job),
            _ => Err(NotHeld::Lost),
        }
    }

    /// Deletes a job: its end, unless it is done already.
    pub(super) fn delete(&mut self, id: JobId) {
        let job = self.jobs.remove(&id);
        if job.is_some_and(|job| job.is_awaited && job.state != JobState::Done) {
            self.ended.push(id.number());
        }
    }

    /// Makes a job dead. That is an end, so no client waits for a later one.
    fn bury(&mut self, id: JobId) {
        let now_ms = self.now_ms;
        let job = self.jobs.get_mut(&id).expect("a job that dies");
        job.state = JobState::Dead;
        (job.version.due_ms, job.version.expires_ms) = (now_ms, 0);
        if std::mem::take(&mut job.is_awaited) {
            self.ended.push(id.number());
        }
    }

    /// Ends a run as its producer has requested meanwhile.
    fn end_run(&mut self, id: JobId) -> RunEnd {
        let now_ms = self.now_ms;
        let Some(job) = self.jobs.get_mut(&id) else {
            return RunEnd::Plain;
        };
        if let Some(next) = job.next.take() {
            job.start(next, now_ms);
            RunEnd::Rerun
        } else if job.cancel_requested {
            self.delete(id);
            RunEnd::Cancelled
        } else {
            RunEnd::Plain
        }
    }

    /// Makes all due jobs ready or dead; returns how many became ready, and how many dead.
    pub(super) fn move_due(&mut self) -> [usize; 2] {
        let now_ms = self.now_ms;
        let (mut ready, mut buried) = (0, 0);
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            let job = &self.jobs[&id];
            let is_timed = matches!(job.state, JobState::Delayed | JobState::Leased);
            if !is_timed || job.is_expired(now_ms) || job.version.due_ms > now_ms {
                continue;
            }
            let was_leased = job.state == JobState::Leased;
            if was_leased && self.end_run(id) != RunEnd::Plain {
                continue;
            }
            let job = self.jobs.get_mut(&id).expect("a due job");
            if was_leased && job.is_native {
                job.losses += 1;
            }
            let is_dead = match job.is_native {
                true => was_leased && job.losses >= LOSSES_MAX,
                false => job.tries == 0,
            };
            if is_dead {
                self.bury(id);
                buried += 1;
            } else {
                job.state = JobState::Ready;
                ready += 1;
            }
        }
        [ready, buried]
    }
}
