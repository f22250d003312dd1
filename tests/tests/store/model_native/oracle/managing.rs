//! The outcomes of the verbs of producers and operators on jobs that they name.

use tidegate_core::v1::FieldChange;
use tidegate_core::v1::job::JobChange;
use tidegate_core::v1::publish::DueTime;
use tidegate_core::{IfRunning, JobId, JobState};
use tidegate_store::{CancelOutcome, JobReference, PromoteOutcome, Promoted};

use super::NativeModel;

/// How a job has ended.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum ModelEnd {
    Done(JobId),
    Dead(JobId),
    NotEnded(JobId, JobState),
    Gone,
}

impl NativeModel {
    /// A client that looks at a job which has not ended waits for its end from then on.
    pub(in super::super) fn result(&mut self, queue: usize, job: JobReference) -> ModelEnd {
        let Some((id, job)) = self.live(queue, job) else {
            return ModelEnd::Gone;
        };
        match job.state {
            JobState::Done => ModelEnd::Done(id),
            JobState::Dead => ModelEnd::Dead(id),
            state => {
                job.is_awaited = true;
                ModelEnd::NotEnded(id, state)
            }
        }
    }

    pub(in super::super) fn cancel(
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
            self.delete(id);
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
                self.delete(id);
                CancelOutcome::Done { id, was }
            }
        }
    }

    /// Returns the state of a job that does not wait.
    pub(in super::super) fn change(
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
        let limit_ms = match change.start_within {
            FieldChange::Keep => own_ms.unwrap_or(0),
            FieldChange::Reset => 0,
            FieldChange::Set(limit) => limit.as_ms(),
        };
        let has_limit = !change.start_within.is_kept();
        if let Some(priority) = change.priority {
            job.version.priority = priority.get();
        }
        match change.due() {
            Some(DueTime::After(delay)) => job.schedule(now_ms + delay.as_ms(), now_ms),
            Some(DueTime::At(instant)) => job.schedule(instant.as_ms(), now_ms),
            // A limit counts from now on if the job is due already.
            None if has_limit => {
                job.version.due_ms = job.version.due_ms.max(now_ms);
            }
            None => {}
        }
        if has_limit || change.due().is_some() && job.is_native {
            let from_ms = job.version.due_ms;
            job.version.expires_ms = if limit_ms > 0 { from_ms + limit_ms } else { 0 };
        }
        Some(Ok(id))
    }

    pub(in super::super) fn promote(&mut self, queue: usize, job: JobReference) -> PromoteOutcome {
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
        PromoteOutcome::Done(Promoted {
            id,
            due_at_ms: job.version.due_ms,
            was_delayed,
        })
    }

    pub(in super::super) fn respawn(&mut self, id: JobId, ttl_ms: u64) {
        let now_ms = self.now_ms;
        let job = self.jobs.get_mut(&id).expect("a dead job");
        job.tries = u16::from(!job.is_native);
        (job.failures, job.losses) = (0, 0);
        job.schedule(now_ms, now_ms);
        job.version.expires_ms = if ttl_ms > 0 { now_ms + ttl_ms } else { 0 };
    }
}
