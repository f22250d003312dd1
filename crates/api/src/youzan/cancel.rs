//! `delete`: deletes a job in any state, with a version of it that waits.

use tidegate_core::{IfRunning, QueueKey, QueueName};
use tidegate_store::CancelOutcome;

use super::answer::CommandResult;
use super::error::YouzanError;
use super::job_id::references;
use super::request::NamedJob;
use super::service::YouzanService;

pub(super) async fn cancel(
    service: &YouzanService,
    named: NamedJob,
) -> Result<CommandResult, YouzanError> {
    for topic in &topics_of(service, &named).await? {
        cancel_in(service, &service.queue(topic), &named.id).await?;
    }
    // A topic of the request need not be the topic of the job.
    if named.topic.is_none() {
        expire_entry(service, &named.id).await;
    }
    Ok(CommandResult::Done(named.id))
}

/// The topics where a job may be: the topic in the request, or the topics in the directory. None if neither has one: as
/// in the original there is no such job then.
///
/// # Errors
/// Redis gave no answer.
pub(super) async fn topics_of(
    service: &YouzanService,
    named: &NamedJob,
) -> Result<Vec<QueueName>, YouzanError> {
    if let Some(topic) = &named.topic {
        return Ok(vec![topic.clone()]);
    }
    let (pool, namespace) = (&service.pool, &service.namespace);
    Ok(pool.directory(namespace, &named.id).await?)
}

/// Deletes the job of a queue. Succeeds if there is none.
pub(super) async fn cancel_in(
    service: &YouzanService,
    queue: &QueueKey,
    id: &str,
) -> Result<(), YouzanError> {
    for reference in references(queue, id) {
        let cancelling = service.pool.cancel(queue, reference, IfRunning::Revoke);
        if cancelling.await? != CancelOutcome::AlreadyGone {
            break;
        }
    }
    Ok(())
}

/// Lets the entry of a job that is gone expire. If that fails it expires later.
pub(super) async fn expire_entry(service: &YouzanService, id: &str) {
    let (pool, namespace) = (&service.pool, &service.namespace);
    let _ = pool.expire_directory(namespace, id).await;
}
