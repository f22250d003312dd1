//! Publishes the jobs of schedules whose ticks are due.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::{join_all, try_join, try_join_all};
use tidegate_core::schedule::TickPlan;
use tidegate_core::v1::publish::PublishResult;
use tidegate_core::{QueueKey, keys, share_of};
use tidegate_store::{
    Row, ScheduleDefinition, ScheduleTick, SchedulesDue, StoreError, TableRevision, TickOutcome,
    TickPublish,
};

use crate::instance::Instance;
use crate::pump_metrics::TickResult;

/// The pause after a failure.
const FAILED_PAUSE: Duration = Duration::from_secs(1);
/// The pause after a definition that cannot be read: another release may have written it, or set it again.
const UNREADABLE_PAUSE: Duration = Duration::from_secs(60);

/// When the next ticks of a bucket are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextTicks {
    /// More are due, or may be.
    pub(crate) more: bool,
    /// The schedules of a further namespace are due after this time; `None` = there are none.
    pub(crate) after: Option<Duration>,
}

/// Publishes a job for one due tick of each of up to `limit` schedules of a bucket, whose namespaces take turns; `None`
/// if this instance does not lead it.
///
/// A tick whose job cannot be published is tried again after a pause, in which the ticks behind it have their turns:
/// Redis may be out of memory, or the table of definitions on another server, which is no reason to treat the server of
/// the bucket as unavailable. No tick is published twice, since it is compared when it is published.
///
/// # Errors
/// The server of the bucket is unavailable. The bucket has to be run again.
pub(crate) async fn publish_due(
    instance: &Instance,
    bucket: u16,
    limit: u64,
) -> Result<Option<NextTicks>, StoreError> {
    let store = &instance.store;
    let due = store.schedules_due(bucket, &instance.token, limit).await?;
    let SchedulesDue::Some {
        now_ms,
        next_in_ms,
        ticks,
    } = due
    else {
        return Ok(None);
    };
    let after = next_in_ms.map(Duration::from_millis);
    if ticks.is_empty() {
        return Ok(Some(NextTicks { more: false, after }));
    }
    let round = TickRound {
        instance,
        bucket,
        now_ms,
    };
    let defined = definitions(instance, ticks).await;
    let (mut publishes, mut others) = (Vec::new(), Vec::new());
    for (tick, stored) in &defined {
        match round.step(tick, stored.as_ref()) {
            Step::Publish(publish) => publishes.push(publish),
            step => others.push((tick, step)),
        }
    }
    let mut has_failed = others.iter().any(|(_, step)| matches!(step, Step::Retry));
    let changes = others
        .into_iter()
        .map(|(tick, step)| round.change(tick, step));
    try_join_all(changes).await?;
    let mut next = NextTicks { more: true, after };
    if !publishes.is_empty() {
        match round.publish(publishes).await? {
            Some(published) => next = published,
            None => has_failed = true,
        }
    }
    if has_failed {
        instance.measures.failed();
    }
    Ok(Some(next))
}

/// The handling of a tick.
enum Step<'a> {
    /// A job is published, or left out.
    Publish(TickPublish<'a>),
    /// The table has no such schedule.
    Forget,
    /// The process that was about to set the schedule did not set its tick: it belongs to another definition, is not
    /// known, or is not due yet.
    Set(QueueKey, &'a ScheduleDefinition, TableRevision),
    /// This release cannot read the schedule.
    Unreadable,
    /// A call has failed.
    Retry,
}

/// The definition of a schedule; an error if it could not be read.
type Defined = Result<Option<Row<ScheduleDefinition>>, ()>;

/// Reads the definitions of schedules, the definitions of a namespace together.
async fn definitions(
    instance: &Instance,
    ticks: Vec<ScheduleTick>,
) -> Vec<(ScheduleTick, Defined)> {
    let mut by_namespace: BTreeMap<_, Vec<ScheduleTick>> = BTreeMap::new();
    for tick in ticks {
        let namespace = tick.key.namespace.clone();
        by_namespace.entry(namespace).or_default().push(tick);
    }
    let reads = by_namespace.into_iter().map(async |(namespace, ticks)| {
        let of_ticks: Vec<_> = ticks.iter().map(|tick| &tick.key).collect();
        let schedules = instance.store.schedules();
        let table = keys::schedules(namespace.as_str());
        let read = instance.read_table(&table, schedules.get_many(&of_ticks));
        let read: Vec<Defined> = match read.await {
            Ok(stored) => stored.into_iter().map(Ok).collect(),
            Err(error) => {
                tracing::debug!(%namespace, %error, "failed to read the definitions of schedules");
                ticks.iter().map(|_| Err(())).collect()
            }
        };
        ticks.into_iter().zip(read).collect::<Vec<_>>()
    });
    join_all(reads).await.into_iter().flatten().collect()
}

/// The due ticks of a bucket that are handled together.
struct TickRound<'a> {
    instance: &'a Instance,
    bucket: u16,
    now_ms: u64,
}

impl TickRound<'_> {
    fn step<'a>(
        &self,
        tick: &'a ScheduleTick,
        defined: Result<&'a Option<Row<ScheduleDefinition>>, &()>,
    ) -> Step<'a> {
        let key = &tick.key;
        let Ok(stored) = defined else {
            return Step::Retry;
        };
        let definition = stored.as_ref().map(|it| it.value.as_ref());
        if let Some(Err(error)) = definition {
            tracing::warn!(schedule = %key, %error, "the definition of a schedule cannot be read; it publishes nothing until it is set again, or read by another release");
            return Step::Unreadable;
        }
        let queue = stored.as_ref().and_then(|it| it.queue(&key.namespace));
        let queue = queue.filter(|queue| self.instance.store.bucket_of(queue) == self.bucket);
        let revision = stored.as_ref().and_then(|it| it.revision);
        let (Some(Ok(definition)), Some(queue), Some(revision)) = (definition, queue, revision)
        else {
            return Step::Forget;
        };
        let due_ms = tick.tick_ms.filter(|tick_ms| *tick_ms <= self.now_ms);
        let (Some(tick_ms), true) = (due_ms, tick.revision == revision.to_string().as_bytes())
        else {
            return Step::Set(queue, definition, revision);
        };
        let Ok(rule) = definition.times.rule() else {
            tracing::warn!(schedule = %key, "the times of a schedule cannot be read; it publishes nothing until it is set again, or read by another release");
            return Step::Unreadable;
        };
        let plan = TickPlan::new(&rule, definition.catch_up(), tick_ms, self.now_ms);
        let publish = TickPublish {
            tick,
            queue,
            definition,
            publish_ms: plan.publish_ms,
            next_ms: plan.next_ms,
            max_jobs: None,
        };
        match publish.check() {
            Ok(()) => Step::Publish(publish),
            Err(error) => {
                tracing::warn!(schedule = %key, %error, "the job of a schedule is not valid; it publishes nothing until it is set again");
                Step::Unreadable
            }
        }
    }

    /// Changes a tick for which nothing is published now.
    async fn change(&self, tick: &ScheduleTick, step: Step<'_>) -> Result<(), StoreError> {
        let (store, bucket) = (&self.instance.store, self.bucket);
        match step {
            Step::Publish(_) => Ok(()),
            Step::Forget => store.schedule_forget(bucket, tick).await,
            Step::Set(queue, definition, revision) => {
                let known = Some(tick.revision.as_slice());
                let setting = store.schedule_set(&tick.key, &queue, definition, revision, known);
                setting.await.map(drop)
            }
            Step::Unreadable => store.schedule_defer(bucket, tick, UNREADABLE_PAUSE).await,
            Step::Retry => store.schedule_defer(bucket, tick, FAILED_PAUSE).await,
        }
    }

    /// Publishes the jobs of ticks together. `None` = that has failed, and the ticks are tried again after a pause.
    async fn publish(
        &self,
        mut publishes: Vec<TickPublish<'_>>,
    ) -> Result<Option<NextTicks>, StoreError> {
        let published = match self.apply_policies(&mut publishes).await {
            Ok(()) => {
                let store = &self.instance.store;
                store.schedule_publish(self.bucket, &publishes).await
            }
            Err(error) => Err(error),
        };
        match published {
            Ok(published) => {
                for outcome in published.outcomes {
                    self.count(outcome);
                }
                Ok(Some(NextTicks {
                    more: published.more,
                    after: published.next_in_ms.map(Duration::from_millis),
                }))
            }
            Err(error) => {
                tracing::debug!(bucket = self.bucket, ticks = publishes.len(), %error, "failed to publish for schedules");
                let ticks = publishes.into_iter().map(|it| it.tick);
                try_join_all(ticks.map(|tick| self.change(tick, Step::Retry))).await?;
                Ok(None)
            }
        }
    }

    /// Leaves out the ticks of queues that are closed, and sets how many jobs the first lanes of the others may have.
    async fn apply_policies(&self, publishes: &mut [TickPublish<'_>]) -> Result<(), StoreError> {
        let queues: BTreeSet<QueueKey> = publishes.iter().map(|it| it.queue.clone()).collect();
        let queues: Vec<&QueueKey> = queues.iter().collect();
        let (policies, lanes) = (self.instance.store.policies(), self.instance.store.lanes());
        let policies = self
            .instance
            .read_table(keys::POLICIES, policies.get_many(&queues));
        let rows = self
            .instance
            .read_table(keys::LANES, lanes.of_queues(&queues));
        let (policies, rows) = try_join(policies, rows).await?;
        for publish in publishes {
            let Ok(at) = queues.binary_search(&&publish.queue) else {
                continue;
            };
            let policy = policies[at]
                .as_ref()
                .and_then(|row| row.value.as_ref().ok());
            publish.publish_ms = publish
                .publish_ms
                .filter(|_| !policy.is_some_and(|it| it.closed));
            let used = rows[at].counts.used;
            let max_jobs = policy.and_then(|policy| policy.max_jobs);
            publish.max_jobs = max_jobs.map(|max_jobs| share_of(0, used, max_jobs));
        }
        Ok(())
    }

    fn count(&self, outcome: TickOutcome) {
        self.instance.measures.tick(match outcome {
            TickOutcome::Moved => return,
            TickOutcome::LeftOut | TickOutcome::Published(Err(_)) => TickResult::LeftOut,
            TickOutcome::Published(Ok(PublishResult::Exists)) => TickResult::Kept,
            TickOutcome::Published(Ok(_)) => TickResult::Published,
        });
    }
}
