//! Publishes the jobs of schedules whose ticks are due.

use std::time::Duration;

use tidegate_core::schedule::TickPlan;
use tidegate_core::{QueueKey, keys, share_of};
use tidegate_store::{
    KeyedOutcome, ScheduleTick, SchedulesDue, StoreError, TickOutcome, TickPublish,
};
use tokio::time::Instant;

use crate::instance::Instance;
use crate::pump_metrics::TickResult;

/// A run stops at the first failure after this time.
const FAILING_MAX: Duration = Duration::from_millis(500);
/// The pause after a failure.
const FAILED_PAUSE_MS: u64 = 1_000;
/// The pause after a definition that cannot be read: another release may have written it, or set it again.
const UNREADABLE_PAUSE_MS: u64 = 60_000;

/// When the next tick of a bucket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextTick {
    /// More ticks are due, or have changed.
    Now,
    /// After this time.
    In(Duration),
    /// There is none.
    Never,
}

/// Publishes a job for one due tick of each of up to `limit` schedules of a bucket; `None` if this instance does not lead it.
///
/// A tick whose job cannot be published is tried again after a pause, in which the ticks behind it have their turns: Redis may be
/// out of memory, or the table of definitions on another server, which is no reason to treat the server of the bucket as
/// unavailable. No tick is published twice, since it is compared when it is published.
///
/// # Errors
/// The server of the bucket is unavailable. The bucket has to be run again.
pub(crate) async fn publish_due(
    instance: &Instance,
    bucket: u16,
    limit: u64,
) -> Result<Option<NextTick>, StoreError> {
    let due = instance
        .store
        .schedules_due(bucket, &instance.token, limit)
        .await?;
    let SchedulesDue::Some {
        now_ms,
        next_in_ms,
        ticks,
    } = due
    else {
        return Ok(None);
    };
    let (mut is_more, mut next_in_ms) = (ticks.len() as u64 >= limit, next_in_ms);
    let (began_at, mut has_failed) = (Instant::now(), false);
    for tick in ticks {
        let outcome = publish(instance, bucket, &tick, now_ms).await;
        let Ok(outcome) = outcome.inspect_err(|error| {
            tracing::debug!(schedule = %tick.key, %error, "failed to publish for a schedule");
        }) else {
            has_failed = true;
            let deferred = instance
                .store
                .schedule_defer(bucket, &tick, FAILED_PAUSE_MS);
            deferred.await?;
            // The definitions of others may be on a server that answers.
            if began_at.elapsed() < FAILING_MAX {
                continue;
            }
            is_more = true;
            break;
        };
        match outcome {
            Handled::Next(next_ms) if next_ms <= now_ms => is_more = true,
            Handled::Next(next_ms) => {
                let in_ms = next_ms - now_ms;
                next_in_ms = Some(next_in_ms.map_or(in_ms, |known_ms| known_ms.min(in_ms)));
            }
            Handled::LookAgain => is_more = true,
            Handled::Ended => {}
        }
    }
    if has_failed {
        instance.measures.failed();
        next_in_ms =
            Some(next_in_ms.map_or(FAILED_PAUSE_MS, |known_ms| known_ms.min(FAILED_PAUSE_MS)));
    }
    Ok(Some(match next_in_ms {
        _ if is_more => NextTick::Now,
        Some(ms) => NextTick::In(Duration::from_millis(ms)),
        None => NextTick::Never,
    }))
}

/// What is known about a schedule after its tick was handled.
enum Handled {
    /// Its next tick, in ms since 1970.
    Next(u64),
    /// It has no tick any more.
    Ended,
    /// The bucket has another tick now.
    LookAgain,
}

async fn publish(
    instance: &Instance,
    bucket: u16,
    tick: &ScheduleTick,
    now_ms: u64,
) -> Result<Handled, StoreError> {
    let store = &instance.store;
    let key = &tick.key;
    let table = keys::schedules(key.namespace.as_str());
    let stored = instance
        .read_table(&table, store.schedules().get(key))
        .await?;
    let queue = stored.as_ref().and_then(|it| it.queue(&key.namespace));
    let queue = queue.filter(|queue| store.bucket_of(queue) == bucket);
    let definition = stored.as_ref().map(|it| it.definition.as_ref());
    if let Some(Err(error)) = definition {
        tracing::warn!(schedule = %key, %error, "the definition of a schedule cannot be read; it publishes nothing until it is set again, or read by another release");
        return defer_unreadable(instance, bucket, tick, now_ms).await;
    }
    let revision = stored.as_ref().and_then(|it| it.revision);
    let (Some(Ok(definition)), Some(queue), Some(revision)) = (definition, queue, revision) else {
        store.schedule_forget(bucket, tick).await?;
        return Ok(Handled::Ended);
    };
    let due_ms = tick.tick_ms.filter(|tick_ms| *tick_ms <= now_ms);
    let (Some(tick_ms), true) = (due_ms, tick.revision == revision.to_string().as_bytes()) else {
        // The process that was about to set the schedule did not set its tick: it is that of another definition, not known, or
        // not due yet.
        let known = Some(tick.revision.as_slice());
        let setting = store.schedule_set(key, &queue, definition, revision, known);
        setting.await?;
        return Ok(Handled::LookAgain);
    };
    let Ok(rule) = definition.times.rule() else {
        tracing::warn!(schedule = %key, "the times of a schedule cannot be read; it publishes nothing until it is set again, or read by another release");
        return defer_unreadable(instance, bucket, tick, now_ms).await;
    };
    let plan = TickPlan::new(&rule, definition.catch_up(), tick_ms, now_ms);
    let policies = store.policies();
    let policy = instance
        .read_table(keys::POLICIES, policies.get(&queue))
        .await?;
    let policy = policy.policy;
    let max_jobs = max_jobs_of_first_lane(instance, &queue, policy.max_jobs).await?;
    let publish = TickPublish {
        definition,
        publish_ms: plan.publish_ms.filter(|_| !policy.closed),
        next_ms: plan.next_ms,
        max_jobs,
    };
    let outcome = store.schedule_publish(&queue, tick, publish).await?;
    instance.measures.tick(match outcome {
        TickOutcome::Moved => return Ok(Handled::LookAgain),
        TickOutcome::LeftOut | TickOutcome::Published(KeyedOutcome::QueueFull) => {
            TickResult::LeftOut
        }
        TickOutcome::Published(KeyedOutcome::Exists) => TickResult::Kept,
        TickOutcome::Published(_) => TickResult::Published,
    });
    Ok(plan.next_ms.map_or(Handled::Ended, Handled::Next))
}

/// The number of jobs that the first lane of a queue may hold, if the queue may hold `max_jobs`.
async fn max_jobs_of_first_lane(
    instance: &Instance,
    queue: &QueueKey,
    max_jobs: Option<u64>,
) -> Result<Option<u64>, StoreError> {
    let Some(max_jobs) = max_jobs else {
        return Ok(None);
    };
    let lanes = instance.store.lanes();
    let row = instance.read_table(keys::LANES, lanes.row(queue)).await?;
    Ok(Some(share_of(0, row.counts.used, max_jobs)))
}

/// Keeps the tick of a schedule that this release cannot read.
async fn defer_unreadable(
    instance: &Instance,
    bucket: u16,
    tick: &ScheduleTick,
    now_ms: u64,
) -> Result<Handled, StoreError> {
    let store = &instance.store;
    store
        .schedule_defer(bucket, tick, UNREADABLE_PAUSE_MS)
        .await?;
    Ok(Handled::Next(now_ms.saturating_add(UNREADABLE_PAUSE_MS)))
}
