//! `finish`: ends the run of a job that is done.
//!
//! The protocol has no leases: any client that knows the id of a reserved job may finish it. A version that was added
//! meanwhile runs. A job that is not reserved, as after the end of its TTR, is deleted, unless it was added after the
//! last pop.

use tidegate_core::v1::consume::Outcome;
use tidegate_core::{Failures, Job, JobState, QueueKey};
use tidegate_engine::Settlement;
use tidegate_store::LeasedJob;

use super::answer::CommandResult;
use super::cancel::{cancel_in, expire_entry, topics_of};
use super::error::YouzanError;
use super::job_id::references;
use super::request::NamedJob;
use super::service::YouzanService;

pub(super) async fn ack(
    service: &YouzanService,
    named: NamedJob,
) -> Result<CommandResult, YouzanError> {
    let topics = topics_of(service, &named).await?;
    let mut end = None;
    // The job of an earlier topic comes last, and is the first to be finished. One request ends one run.
    for topic in topics.iter().rev() {
        end = ack_in(service, &service.queue(topic), &named.id).await?;
        if end.is_some() {
            break;
        }
    }
    let mut is_left = end == Some(Outcome::Rerun) || topics.len() > 1;
    if end.is_none() {
        for topic in &topics {
            is_left |= !delete_delivered(service, &service.queue(topic), &named.id).await?;
        }
    }
    if !is_left && named.topic.is_none() {
        expire_entry(service, &named.id).await;
    }
    Ok(CommandResult::Done(named.id))
}

/// Deletes the job of a queue whose TTR has ended, or that no consumer has popped. Returns whether no job is left: a
/// version that was added after the last pop stays, so that a finish may be repeated.
async fn delete_delivered(
    service: &YouzanService,
    queue: &QueueKey,
    id: &str,
) -> Result<bool, YouzanError> {
    for reference in references(queue, id) {
        let Some(found) = service.pool.peek_job(queue, reference).await? else {
            continue;
        };
        if is_new_version(&found.job) {
            return Ok(false);
        }
    }
    cancel_in(service, queue, id).await?;
    Ok(true)
}

/// Whether a job was popped before, but not in its present version, whose counts begin at 0.
fn is_new_version(job: &Job) -> bool {
    let is_unfinished = !matches!(job.state, JobState::Dead | JobState::Done);
    is_unfinished && job.attempt > 0 && job.failures == Some(Failures::default())
}

/// Ends the run of a job of a queue. Returns its outcome, done or rerun; `None` if no consumer holds such a job.
async fn ack_in(
    service: &YouzanService,
    queue: &QueueKey,
    id: &str,
) -> Result<Option<Outcome>, YouzanError> {
    for reference in references(queue, id) {
        let Some(found) = service.pool.peek_job(queue, reference).await? else {
            continue;
        };
        if found.job.state != JobState::Leased {
            continue;
        }
        let leased = LeasedJob {
            id: found.job.id,
            attempt: found.job.attempt,
        };
        let ack = Settlement::Ack(vec![leased.into()]);
        let acked = service.pool.settle(queue, &ack).await?.into_iter().next();
        // Its lease may have ended since it was read.
        let end = acked.filter(|it| matches!(it, Outcome::Done { .. } | Outcome::Rerun));
        if end.is_some() {
            return Ok(end);
        }
    }
    Ok(None)
}
