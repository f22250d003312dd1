//! Actions, and the jobs of a page that an action is for. An action changes where jobs are read, so it meets some of
//! them again: each must be recognised by its record alone.

use tidegate_core::limits::DURATION_MS_MAX;
use tidegate_core::v1::FieldChange;
use tidegate_core::v1::job::{ActBody, ActName, JobChange};
use tidegate_core::v1::publish::DueTime;
use tidegate_core::v1::values::Timestamp;
use tidegate_core::{IfRunning, Job, JobState};
use tidegate_store::ListedJob;

/// The change as it is for all jobs of a lane in which the action began at this time: a delay counts from then on, so
/// that all jobs get the same due time, by which a job that has it is recognised. 0 = a delay counts from the call to
/// Redis on.
pub(super) fn change_since(act: &ActBody, began_ms: u64) -> JobChange {
    let change = act.change.unwrap_or_default();
    let Some(due) = change.due().filter(|_| began_ms > 0) else {
        return change;
    };
    let at_ms = match due {
        DueTime::After(delay) if delay.as_ms() == 0 => began_ms,
        // It counts from the end of the running millisecond.
        DueTime::After(delay) => began_ms.saturating_add(delay.as_ms()).saturating_add(1),
        DueTime::At(instant) => instant.as_ms(),
    };
    JobChange {
        start_within: change.start_within,
        priority: change.priority,
        ..DueTime::At(Timestamp::saturating(at_ms.min(DURATION_MS_MAX))).into()
    }
}

/// Whether the action, if it began at this time, is for a job that its filter selects: it was there then, and is not
/// yet as the action makes it.
pub(super) fn is_for(act: &ActBody, listed: &ListedJob, began_ms: u64, now_ms: u64) -> bool {
    let job = &listed.job;
    // A worker has had it since then: the action may have made it ready.
    let has_failed = || {
        let last = listed.last_failure.as_ref();
        last.is_some_and(|failure| failure.at_ms > began_ms)
    };
    // Without this the action would not end while producers publish.
    let is_new = job.created_at_ms > began_ms;
    !is_new
        && match act.act {
            // A job that dies again stays dead.
            ActName::Respawn => job.due_at_ms <= began_ms,
            ActName::Cancel if act.running == Some(IfRunning::Ask) => {
                job.state != JobState::Leased || !job.cancel_requested
            }
            ActName::Cancel | ActName::Purge => true,
            ActName::Promote => !has_failed(),
            ActName::Change => {
                let change = change_since(act, began_ms);
                !has_failed() && !is_as(change, job, began_ms, now_ms)
            }
        }
}

/// Whether a job is as a change makes it, with an instant as its due time.
fn is_as(change: JobChange, job: &Job, began_ms: u64, now_ms: u64) -> bool {
    let is_ready = job.state == JobState::Ready;
    let is_due = match change.run_at {
        Some(run_at) if is_ready => run_at.as_ms() <= now_ms,
        Some(run_at) => job.due_at_ms == run_at.as_ms(),
        None => true,
    };
    let has_priority = change
        .priority
        .is_none_or(|priority| priority.get() == job.priority);
    is_due
        && has_priority
        && match change.start_within {
            FieldChange::Keep => true,
            FieldChange::Reset => job.expires_at_ms == 0,
            FieldChange::Set(limit) => {
                // The limit of a job that is ready counts from the change on, or from the end of that millisecond.
                let limit_ms = limit.as_ms().min(DURATION_MS_MAX);
                let within_ms = job.expires_at_ms.saturating_sub(job.due_at_ms);
                let is_from_now = !is_ready || job.due_at_ms >= began_ms;
                is_from_now && (within_ms == limit_ms || within_ms == limit_ms + 1)
            }
        }
}
