//! The jobs that must be in Redis, and the outcome of each verb on them. It knows the documented rules, and nothing of
//! lists, timers and indexes.

use std::collections::BTreeMap;

use bytes::Bytes;
use tidegate_core::RecordExtension;
use tidegate_core::{JobId, JobState, KeyHash, RetryPolicy};
use tidegate_store::{
    AckOutcome, AckRequest, CancelOutcome, FailureEffect, IfRunning, JobChange, JobReference,
    LeasedJob, LoggedFailure, NewDue, PromoteOutcome, ReleaseOutcome, TouchOutcome,
};

use super::publishing::FirstRequest;
use crate::fixture::LOSSES_MAX;

/// The number of failures of which a job keeps the history.
const HISTORY_MAX: usize = 10;

/// What a job is to be after a publish: its content and its times.
#[derive(Debug, Clone)]
pub(super) struct JobVersion {
    pub(super) body: Bytes,
    pub(super) extension: RecordExtension,
    pub(super) due_ms: u64,
    pub(super) expires_ms: u64,
}

/// A job of the model.
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
        self.version.extension.key_hash.map(KeyHash)
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

    fn bury(&mut self, now_ms: u64) {
        self.state = JobState::Dead;
        (self.version.due_ms, self.version.expires_ms) = (now_ms, 0);
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
    /// By queue and idempotency key.
    pub(super) requests: BTreeMap<(usize, u8), FirstRequest>,
}

impl NativeModel {
    /// The job of a queue that a client names, expired or not.
    pub(super) fn named(&self, queue: usize, job: JobReference) -> Option<JobId> {
        let mut jobs = self.jobs.iter().filter(|(_, job)| job.queue == queue);
        let found = jobs.find(|(id, model)| match job {
            JobReference::Id(wanted) => **id == wanted,
            JobReference::Key(hash) => model.key() == Some(hash),
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
            self.jobs.remove(&id);
            RunEnd::Cancelled
        } else {
            RunEnd::Plain
        }
    }

    pub(super) fn reserve(&mut self, id: JobId, lease_ms: u64) -> &ModelJob {
        let now_ms = self.now_ms;
        let job = self.jobs.get_mut(&id).expect("a ready job");
        job.state = JobState::Leased;
        job.attempt += 1;
        if job.is_native {
            job.version.expires_ms = 0;
        } else {
            job.tries -= 1;
        }
        job.version.due_ms = now_ms + lease_ms;
        job
    }

    pub(super) fn ack(&mut self, queue: usize, request: &AckRequest, retain_ms: u64) -> AckOutcome {
        let now_ms = self.now_ms;
        let id = request.id;
        let age_ms = now_ms - id.created_at_ms().min(now_ms);
        let Some(id) = self.named(queue, id.into()) else {
            return AckOutcome::AlreadyGone;
        };
        let job = self.jobs.get_mut(&id).expect("a named job");
        if job.state == JobState::Done {
            return AckOutcome::AlreadyGone;
        }
        if job.is_expired(now_ms) {
            self.jobs.remove(&id);
            return AckOutcome::AlreadyGone;
        }
        let is_leased = job.state == JobState::Leased;
        let may_ack = match request.attempt {
            Some(attempt) => is_leased && job.attempt == attempt,
            None => is_leased || job.key().is_none(),
        };
        if !may_ack {
            return AckOutcome::Lost;
        }
        let was = job.state;
        if job.next.is_some() {
            assert_eq!(self.end_run(id), RunEnd::Rerun);
            return AckOutcome::Rerun { age_ms };
        }
        let own_ms = job.version.extension.retain_ms.map(u64::from);
        let kept_ms = if job.is_native {
            own_ms.unwrap_or(retain_ms)
        } else {
            0
        };
        if kept_ms > 0 && is_leased {
            job.state = JobState::Done;
            job.cancel_requested = false;
            job.version.body = Bytes::new();
            job.version.expires_ms = now_ms + kept_ms;
        } else {
            self.jobs.remove(&id);
        }
        AckOutcome::Done { was, age_ms }
    }

    pub(super) fn touch(
        &mut self,
        queue: usize,
        leased: LeasedJob,
        lease_ms: Option<u64>,
        default_ms: u64,
    ) -> TouchOutcome {
        let now_ms = self.now_ms;
        let job = match self.held(queue, leased) {
            Ok(job) => job,
            Err(NotHeld::Gone) => return TouchOutcome::AlreadyGone,
            Err(NotHeld::Lost) => return TouchOutcome::Lost,
        };
        let own_ms = job.version.extension.lease_ms.map(u64::from);
        let until_ms = now_ms + lease_ms.or(own_ms).unwrap_or(default_ms);
        job.version.due_ms = job.version.due_ms.max(until_ms);
        TouchOutcome::Extended {
            until_ms: job.version.due_ms,
            cancel_requested: job.cancel_requested,
        }
    }

    pub(super) fn release(
        &mut self,
        queue: usize,
        leased: LeasedJob,
        delay_ms: u64,
    ) -> ReleaseOutcome {
        let now_ms = self.now_ms;
        match self.held(queue, leased) {
            Ok(_) => {}
            Err(NotHeld::Gone) => return ReleaseOutcome::AlreadyGone,
            Err(NotHeld::Lost) => return ReleaseOutcome::Lost,
        }
        match self.end_run(leased.id) {
            RunEnd::Rerun => return ReleaseOutcome::Rerun,
            RunEnd::Cancelled => return ReleaseOutcome::Cancelled,
            RunEnd::Plain => {}
        }
        let job = self.jobs.get_mut(&leased.id).expect("a held job");
        if !job.is_native {
            job.tries += 1;
        }
        job.schedule(now_ms + delay_ms, now_ms);
        ReleaseOutcome::Done
    }

    pub(super) fn cancel(
        &mut self,
        queue: usize,
        job: JobReference,
        if_running: IfRunning,
    ) -> CancelOutcome {
        let now_ms = self.now_ms;
        let Some(id) = self.named(queue, job) else {
            return CancelOutcome::AlreadyGone;
        };
        let job = self.jobs.get_mut(&id).expect("a named job");
        if job.is_expired(now_ms) {
            self.jobs.remove(&id);
            return CancelOutcome::AlreadyGone;
        }
        match (job.state, if_running) {
            (JobState::Done, _) => CancelOutcome::AlreadyDone(id),
            (JobState::Leased, IfRunning::Refuse) => CancelOutcome::Leased,
            (JobState::Leased, IfRunning::Ask) => {
                (job.cancel_requested, job.next) = (true, None);
                CancelOutcome::Requested(id)
            }
            (was, _) => {
                self.jobs.remove(&id);
                CancelOutcome::Done { id, was }
            }
        }
    }

    /// Returns the state of a job that does not wait.
    pub(super) fn change(
        &mut self,
        queue: usize,
        job: JobReference,
        change: JobChange,
    ) -> Option<Result<JobId, JobState>> {
        let now_ms = self.now_ms;
        let (id, job) = self.live(queue, job)?;
        if !job.waits() {
            return Some(Err(job.state));
        }
        let version = &job.version;
        let own_ms =
            (job.is_native && version.expires_ms > 0).then(|| version.expires_ms - version.due_ms);
        let limit_ms = change.start_within_ms.or(own_ms).unwrap_or(0);
        match change.due {
            Some(NewDue::InMs(delay_ms)) => job.schedule(now_ms + delay_ms, now_ms),
            Some(NewDue::AtMs(at_ms)) => job.schedule(at_ms, now_ms),
            // A limit counts from now on if the job is due already.
            None if change.start_within_ms.is_some() => {
                job.version.due_ms = job.version.due_ms.max(now_ms);
            }
            None => {}
        }
        if change.start_within_ms.is_some() || change.due.is_some() && job.is_native {
            let from_ms = job.version.due_ms;
            job.version.expires_ms = if limit_ms > 0 { from_ms + limit_ms } else { 0 };
        }
        Some(Ok(id))
    }

    pub(super) fn promote(&mut self, queue: usize, job: JobReference) -> PromoteOutcome {
        let now_ms = self.now_ms;
        let Some((id, job)) = self.live(queue, job) else {
            return PromoteOutcome::AlreadyGone;
        };
        if !job.waits() {
            return PromoteOutcome::NotWaiting(job.state);
        }
        let was_delayed = job.state == JobState::Delayed;
        if was_delayed {
            let version = &mut job.version;
            if job.is_native && version.expires_ms > 0 {
                version.expires_ms = now_ms + version.expires_ms - version.due_ms;
            }
            job.schedule(now_ms, now_ms);
        }
        PromoteOutcome::Done {
            id,
            due_at_ms: job.version.due_ms,
            was_delayed,
        }
    }

    pub(super) fn respawn(&mut self, id: JobId, ttl_ms: u64) {
        let now_ms = self.now_ms;
        let job = self.jobs.get_mut(&id).expect("a dead job");
        job.tries = u16::from(!job.is_native);
        (job.failures, job.losses) = (0, 0);
        job.schedule(now_ms, now_ms);
        job.version.expires_ms = if ttl_ms > 0 { now_ms + ttl_ms } else { 0 };
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
                job.bury(now_ms);
                buried += 1;
            } else {
                job.state = JobState::Ready;
                ready += 1;
            }
        }
        [ready, buried]
    }
}

/// The result of a failure.
pub(super) enum FailEffect {
    NotHeld(NotHeld),
    Rerun,
    Cancelled,
    Dead,
    /// The delay is this long, and may be longer by this part, in thousandths.
    Retry {
        delay_ms: u64,
        jitter_permille: u64,
    },
}

impl NativeModel {
    /// A retry is scheduled with [`Self::retry`], since the delay may be random.
    pub(super) fn fail(
        &mut self,
        queue: usize,
        failed: &tidegate_store::FailRequest,
        policy: &RetryPolicy,
    ) -> FailEffect {
        use tidegate_store::AfterFailure;
        let now_ms = self.now_ms;
        if let Err(why) = self.held(queue, failed.job) {
            return FailEffect::NotHeld(why);
        }
        match self.end_run(failed.job.id) {
            RunEnd::Rerun => return FailEffect::Rerun,
            RunEnd::Cancelled => return FailEffect::Cancelled,
            RunEnd::Plain => {}
        }
        let job = self.jobs.get_mut(&failed.job.id).expect("a held job");
        let own = &job.version.extension;
        let (failures, is_last) = if job.is_native {
            job.failures += 1;
            let most = own.max_attempts.unwrap_or(policy.max_attempts);
            (u32::from(job.failures), job.failures >= most)
        } else {
            (job.attempt, job.tries == 0)
        };
        let is_for_good = failed.then == AfterFailure::Bury;
        if is_for_good || is_last {
            let effect = if is_for_good {
                FailureEffect::DeadForGood
            } else {
                FailureEffect::Dead
            };
            job.log(effect, &failed.error, now_ms);
            job.bury(now_ms);
            return FailEffect::Dead;
        }
        let delays = own.retry.as_ref().unwrap_or(&policy.delays);
        let step = (failures as usize).min(delays.steps_ms.len()) - 1;
        match failed.then {
            AfterFailure::RetryInMs(delay_ms) => FailEffect::Retry {
                delay_ms,
                jitter_permille: 0,
            },
            _ => FailEffect::Retry {
                delay_ms: delays.steps_ms[step],
                jitter_permille: delays.jitter_permille.into(),
            },
        }
    }

    /// Schedules the next attempt of a job that has failed.
    pub(super) fn retry(&mut self, id: JobId, due_ms: u64, error: &str) {
        let now_ms = self.now_ms;
        let job = self.jobs.get_mut(&id).expect("a job that failed");
        job.log(FailureEffect::Retried, error, now_ms);
        job.schedule(due_ms, now_ms);
    }
}
