//! Actions, and which jobs of a page one is for. An action changes where jobs are read, so it meets some of them again: each must be
//! recognised by its record alone.

use std::time::Duration;

use tidegate_core::limits::DURATION_MS_MAX;
use tidegate_core::{IfRunning, Job, JobState};
use tidegate_store::{JobChange, ListedJob, NewDue};

/// What is done with the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobAct {
    /// Deletes jobs that have not ended.
    Cancel(IfRunning),
    /// Makes delayed jobs ready.
    Promote,
    /// Brings dead jobs back, with this time between two of them.
    Respawn(Duration),
    /// Deletes ready or dead jobs.
    Purge,
    /// Changes when jobs that wait are due.
    Change(JobChange),
}

impl JobAct {
    /// The action as it is for all jobs of a lane in which it began at this time: a delay counts from then on, so that all jobs
    /// get the same due time, by which a job that has it is recognised.
    pub(super) fn since(self, began_ms: u64) -> Self {
        match self {
            Self::Change(change) => Self::Change(JobChange {
                due: change.due.map(|due| NewDue::AtMs(due_at(due, began_ms))),
                ..change
            }),
            _ => self,
        }
    }

    /// Whether the action, if it began at this time, is for a job that its filter selects: it was there then, and is not yet as the
    /// action makes it.
    pub(super) fn is_for(self, listed: &ListedJob, began_ms: u64, now_ms: u64) -> bool {
        let job = &listed.job;
        // It would not end while producers publish.
        let is_new = job.created_at_ms > began_ms;
        // A worker has had it since then: the action may have made it ready.
        let has_failed = || {
            let last = listed.last_failure.as_ref();
            last.is_some_and(|failure| failure.at_ms > began_ms)
        };
        !is_new
            && match self {
                // A job that dies again stays dead.
                Self::Respawn(_) => job.due_at_ms <= began_ms,
                Self::Cancel(IfRunning::Ask) => {
                    job.state != JobState::Leased || !job.cancel_requested
                }
                Self::Cancel(_) | Self::Purge => true,
                Self::Promote => !has_failed(),
                Self::Change(change) => !has_failed() && !is_as(change, job, began_ms, now_ms),
            }
    }
}

/// The instant of a due time. A delay counts from the end of the running millisecond; without one it is the past.
fn due_at(due: NewDue, began_ms: u64) -> u64 {
    let at_ms = match due {
        NewDue::InMs(0) => began_ms,
        NewDue::InMs(delay_ms) => began_ms.saturating_add(delay_ms).saturating_add(1),
        NewDue::AtMs(at_ms) => at_ms,
    };
    at_ms.min(DURATION_MS_MAX)
}

/// Whether a job is as a change makes it, with an instant as its due time.
fn is_as(change: JobChange, job: &Job, began_ms: u64, now_ms: u64) -> bool {
    let is_ready = job.state == JobState::Ready;
    let is_due = match change.due {
        Some(NewDue::AtMs(at_ms)) if is_ready => at_ms <= now_ms,
        Some(NewDue::AtMs(at_ms)) => job.due_at_ms == at_ms,
        Some(NewDue::InMs(_)) => false,
        None => true,
    };
    is_due
        && change.start_within_ms.is_none_or(|limit_ms| {
            if limit_ms == 0 {
                return job.expires_at_ms == 0;
            }
            // The limit of a job that is ready counts from the change on, or from the end of that millisecond.
            let limit_ms = limit_ms.min(DURATION_MS_MAX);
            let within_ms = job.expires_at_ms.saturating_sub(job.due_at_ms);
            let is_from_now = !is_ready || job.due_at_ms >= began_ms;
            is_from_now && (within_ms == limit_ms || within_ms == limit_ms + 1)
        })
}
