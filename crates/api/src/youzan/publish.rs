//! `add`: publishes a job, or replaces the job with its id.

use tidegate_core::{
    IfExists, IfRunning, KEY_ATTRIBUTE, KeyHash, NativeOptions, NewJob, QueueKey, RecordExtension,
};
use tidegate_engine::JobsToPublish;
use tidegate_store::{CancelOutcome, PublishJob};

use super::answer::CommandResult;
use super::error::YouzanError;
use super::request::AddRequest;
use super::service::YouzanService;

pub(super) async fn publish(
    service: &YouzanService,
    add: AddRequest,
) -> Result<CommandResult, YouzanError> {
    let YouzanService {
        pool, namespace, ..
    } = service;
    let (topic, id, delay) = (add.topic.clone(), add.id.clone(), add.delay);
    // Before the job, so that a crash leaves no job that `finish` and `delete` do not find.
    let others = pool.add_to_directory(namespace, &id, &topic, delay).await?;
    let queue = service.queue(&topic);
    let target = service.app.durability_target(pool, namespace);
    let job = publish_job(&queue, add, service.losses_unlimited);
    let published = pool
        .publish(&queue, JobsToPublish::one(job, target))
        .await?;
    published.first()?;
    // After the new job is stored, so that a refusal loses nothing. A job that is reserved stays until it is finished,
    // or its TTR ends, and is then deleted. If this fails, or a job is reserved, the entry keeps these topics.
    let mut is_moved = true;
    for other in &others {
        let queue = service.queue(other);
        let key = KeyHash::of_job(&queue, &id).into();
        let cancelled = pool.cancel(&queue, key, IfRunning::Ask).await;
        is_moved &= !matches!(cancelled, Err(_) | Ok(CancelOutcome::Requested(_)));
    }
    if !others.is_empty() && is_moved {
        let _ = pool.set_directory(namespace, &id, &[topic], delay).await;
    }
    let durability = published.durability;
    durability.map_err(|error| YouzanError::not_durable(&error))?;
    Ok(CommandResult::Done(id))
}

/// The job that is stored. Another job with its id is replaced.
fn publish_job(queue: &QueueKey, add: AddRequest, losses_unlimited: bool) -> PublishJob {
    let milliseconds = |time: std::time::Duration| u64::try_from(time.as_millis());
    let extension = RecordExtension {
        key_hash: Some(KeyHash::of_job(queue, &add.id).0),
        lease_ms: u32::try_from(add.ttr.as_millis()).ok(),
        ..RecordExtension::default()
    };
    let job = NewJob {
        body: add.body.into(),
        attributes: vec![(KEY_ATTRIBUTE.to_owned(), add.id)],
        delay_ms: milliseconds(add.delay).unwrap_or(u64::MAX),
        ttl_ms: 0,
        tries: 0,
        mark: false,
        native: Some(Box::new(NativeOptions {
            run_at_ms: None,
            priority: 0,
            is_awaited: false,
            losses_unlimited,
            extension,
        })),
    };
    PublishJob {
        job,
        if_exists: IfExists::Replace,
        idempotency: None,
    }
}
