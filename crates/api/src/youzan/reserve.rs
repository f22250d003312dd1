//! `pop`: reserves a job for its TTR, and waits for one.

use std::time::Duration;

use tidegate_store::{Claim, LeaseLength};
use tokio::time::{Instant, timeout_at};

use super::answer::CommandResult;
use super::error::YouzanError;
use super::job_id::{id_of, value_of};
use super::request::PopRequest;
use super::service::{CREDENTIAL, YouzanService};

pub(super) async fn reserve(
    service: &YouzanService,
    pop: PopRequest,
    ends_at: Instant,
) -> Result<CommandResult, YouzanError> {
    let engine = &service.app.engine;
    let queues: Vec<_> = pop.topics.iter().map(|it| service.queue(it)).collect();
    let sources = service.pool.sources(&queues);
    let patience = pop.patience.unwrap_or(Duration::MAX).min(service.wait_max);
    let namespace = &service.namespace;
    let take = || engine.take_wait_room(namespace, CREDENTIAL, None, sources.len());
    let _room = (!patience.is_zero()).then(take).transpose()?;
    let claim = Claim {
        count: 1,
        lease: LeaseLength::AsConfigured,
    };
    let waiting = engine.waiters.wait(&sources, claim, patience);
    let waited = timeout_at(ends_at + patience, waiting).await;
    let Some(delivery) = waited.map_err(|_| YouzanError::StorageFailed)?? else {
        return Ok(CommandResult::Nothing);
    };
    let reserved = delivery.jobs().next().ok_or(YouzanError::Internal)?;
    let (id, topic) = (id_of(reserved.job), reserved.queue.queue.clone());
    let value = value_of(reserved.job);
    // So that its `finish` finds it, also if its entry was lost, or another API has published it. The job is delivered
    // even if that fails.
    let (pool, namespace) = (&service.pool, &service.namespace);
    let none = Duration::ZERO;
    let _ = pool.add_to_directory(namespace, &id, &topic, none).await;
    Ok(CommandResult::Reserved {
        id,
        value,
        delivery: Box::new(delivery),
    })
}
