//! Deletes dead jobs that are older than their queues keep them (`keep_dead` in the policy).
//!
//! Each pump does this for all queues: a script deletes by the age of the jobs alone, so two pumps do no harm.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Policy, QueueKey};
use tidegate_store::{LaneRows, Store, StoreError, TableChanges, TableRevision};
use tokio::time::{MissedTickBehavior, interval};

use crate::instance::Instance;

/// Interval of checks. A dead job is deleted late by up to this.
const INTERVAL: Duration = Duration::from_secs(10);

/// For how long queues keep their dead jobs. Queues that keep them for ever are not in it.
#[derive(Debug, Default)]
struct KeptDead {
    /// The revision up to which all policies are known; `None` = none is.
    last: Option<TableRevision>,
    by_queue: BTreeMap<QueueKey, Duration>,
}

impl KeptDead {
    fn apply(&mut self, changes: TableChanges<Policy>) {
        self.last = Some(changes.last);
        if changes.is_all {
            self.by_queue.clear();
        }
        for (queue, row) in changes.by_name {
            let policy = row.and_then(|row| row.value.ok());
            match policy.and_then(|policy| policy.keep_dead_ms) {
                Some(kept_ms) => self.by_queue.insert(queue, Duration::from_millis(kept_ms)),
                None => self.by_queue.remove(&queue),
            };
        }
    }
}

/// Deletes what is too old every ten seconds. Never returns.
pub(crate) async fn delete_old(pool: &str, instance: Arc<Instance>) -> Infallible {
    let mut kept = KeptDead::default();
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match delete_once(&instance.store, &mut kept).await {
            Ok(deleted) => instance.measures.deleted_dead(deleted),
            Err(error) => tracing::warn!(
                pool,
                %error,
                "old dead jobs are kept longer than their queues want: redis failed"
            ),
        }
    }
}

/// Returns how many jobs were deleted. A lane that fails does not keep the others from being checked.
async fn delete_once(store: &Store, kept: &mut KeptDead) -> Result<u64, StoreError> {
    if let Some(changes) = store.policies().changes_since(kept.last).await? {
        kept.apply(changes);
    }
    if kept.by_queue.is_empty() {
        return Ok(0);
    }
    let lanes: LaneRows = store.lanes().rows().await?;
    let (mut deleted, mut failed) = (0, None);
    for (queue, dead_for) in &kept.by_queue {
        for lane in 0..lanes.row(queue).counts.used {
            match store.purge_dead_after(queue.lane(lane), *dead_for).await {
                Ok(jobs) => deleted += jobs,
                Err(error) => failed = Some(error),
            }
        }
    }
    failed.map_or(Ok(deleted), Err)
}

#[cfg(test)]
mod tests {
    use tidegate_store::Row;

    use super::*;

    #[test]
    fn only_queues_that_do_not_keep_dead_jobs_for_ever_are_checked() {
        let queue = |name: &str| QueueKey::try_from(name).unwrap();
        let keeping = |keep_dead_ms| {
            let policy = Policy {
                keep_dead_ms,
                ..Policy::default()
            };
            Some(Row {
                value: Ok(policy),
                ..Row::default()
            })
        };
        let changes = |rows: &[(&str, Option<u64>)], is_all| {
            let rows = rows.iter();
            let by_name = rows.map(|(name, kept_ms)| (queue(name), keeping(*kept_ms)));
            TableChanges {
                by_name: by_name.collect(),
                last: TableRevision::default(),
                is_all,
            }
        };
        let mut kept = KeptDead::default();
        let rows = [("n/a", Some(5)), ("n/b", None), ("n/c", Some(7))];
        kept.apply(changes(&rows, true));
        let names = |kept: &KeptDead| -> Vec<String> {
            kept.by_queue.keys().map(QueueKey::to_string).collect()
        };
        assert_eq!(names(&kept), ["n/a", "n/c"]);
        kept.apply(changes(&[("n/a", None), ("n/c", Some(8))], false));
        assert_eq!(names(&kept), ["n/c"]);
        assert_eq!(kept.by_queue[&queue("n/c")], Duration::from_millis(8));
        kept.apply(changes(&[("n/d", Some(1))], true));
        assert_eq!(names(&kept), ["n/d"]);
    }
}
