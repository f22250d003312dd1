//! The policies that this process has read. Pure: it does no I/O.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::time::Duration;

use tidegate_core::v1::values::Timestamp;
use tidegate_core::{NamespaceGrant, Policy, QueueKey, Rate};
use tidegate_store::{NamespacedName, Row, TableChanges, TableRevision};
use tokio::time::Instant;

/// The policies that were read, and the clock of Redis.
#[derive(Debug, Default)]
pub(super) struct KnownPolicies {
    /// The revisions of the tables of policies and limits up to which all changes are known; `None` = the whole table
    /// must be read.
    pub(super) last: [Option<TableRevision>; 2],
    /// Entries that are stored. Queues without one have the default policy.
    pub(super) entries: HashMap<QueueKey, Row<Policy>>,
    pub(super) limits: BTreeMap<NamespacedName, Row<Rate>>,
    /// The instants at which pauses end, in ms on the clock of Redis.
    pause_ends: BTreeSet<(u64, QueueKey)>,
    /// Queues that are no longer paused, that may have more running jobs than before, or whose rates have changed, and
    /// that have not been taken yet.
    pub(super) unblocked: BTreeSet<QueueKey>,
    /// When the clock of Redis was read, and its time in ms. The answer was received at that moment, so the time on the
    /// clock is that or later.
    clock: Option<(Instant, u64)>,
}

impl KnownPolicies {
    /// The policy of a queue; `None` = the defaults.
    pub(super) fn policy(&self, queue: &QueueKey) -> Option<&Policy> {
        // In most deployments the table is empty: no hash is computed.
        if self.entries.is_empty() {
            return None;
        }
        self.entries.get(queue)?.value.as_ref().ok()
    }

    /// Whether the queue is paused now.
    pub(super) fn is_paused(&self, queue: &QueueKey) -> bool {
        let policy = self.policy(queue);
        policy.is_some_and(|policy| {
            policy.paused && policy.is_paused_at(Timestamp::saturating(self.now_ms()))
        })
    }

    /// A lower bound of the time on the clock of Redis. Before it is known: 0, so no pause ends early.
    fn now_ms(&self) -> u64 {
        let Some((read_at, now_ms)) = self.clock else {
            return 0;
        };
        let passed = u64::try_from(read_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        now_ms.saturating_add(passed)
    }

    /// Records the time on the clock of Redis, which was just read.
    pub(super) fn set_clock(&mut self, now_ms: u64) {
        self.clock = Some((Instant::now(), now_ms));
    }

    /// Whether a pause ends at some time.
    pub(super) fn has_pause_that_ends(&self) -> bool {
        !self.pause_ends.is_empty()
    }

    /// Up to `limit` entries in the order of their queues, from the first one behind `after`.
    pub(super) fn list(
        &self,
        namespaces: &NamespaceGrant,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Vec<(QueueKey, Row<Policy>)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.entries.iter();
        let sorted: BTreeMap<&QueueKey, &Row<Policy>> = entries
            .filter(|(queue, _)| namespaces.contains(&queue.namespace))
            .collect();
        let page = sorted
            .range::<QueueKey, _>((from, Bound::Unbounded))
            .take(limit);
        page.map(|(queue, entry)| ((*queue).clone(), (*entry).clone()))
            .collect()
    }

    /// Applies what was read.
    pub(super) fn apply(&mut self, changes: TableChanges<Policy>) {
        self.last[0] = Some(changes.last);
        let mut by_name = changes.by_name;
        if changes.is_all {
            for queue in self.entries.keys() {
                by_name.entry(queue.clone()).or_insert(None);
            }
        }
        for (queue, row) in by_name {
            self.set(queue, row);
        }
    }

    fn set(&mut self, queue: QueueKey, row: Option<Row<Policy>>) {
        let was_paused = self.is_paused(&queue);
        let before = match row {
            None => self.entries.remove(&queue),
            Some(row) => {
                let damaged = row.value.as_ref().err().cloned();
                let before = self.entries.insert(queue.clone(), row);
                let known = before.as_ref().and_then(|row| row.value.as_ref().err());
                if let Some(damaged) = damaged.filter(|damaged| known != Some(damaged)) {
                    let text = damaged.text;
                    tracing::warn!(%queue, text, "the stored policy of a queue cannot be read, the defaults apply: set the policy again");
                }
                before
            }
        };
        let before = before.unwrap_or_default().value.unwrap_or_default();
        let policy = self.policy(&queue).cloned().unwrap_or_default();
        if let Some(end) = before.paused_until {
            self.pause_ends.remove(&(end.as_ms(), queue.clone()));
        }
        if let Some(end) = policy.paused_until {
            self.pause_ends.insert((end.as_ms(), queue.clone()));
        }
        let is_raised = [
            (before.max_running, policy.max_running),
            (before.groups.max_running, policy.groups.max_running),
        ]
        .into_iter()
        .any(|(before, now)| before.is_some_and(|before| now.is_none_or(|now| now > before)));
        // A queue without any was not held back.
        let has_other_rates = (before.rate, &before.limit) != (policy.rate, &policy.limit)
            && (before.rate.is_some() || before.limit.is_some());
        if was_paused && !self.is_paused(&queue) || is_raised || has_other_rates {
            self.unblocked.insert(queue);
        }
    }

    /// Takes the queues whose pause has ended, one of whose limits of running jobs is higher than before, or whose rates
    /// have changed. Returns also the time until the next pause ends, if one does.
    pub(super) fn take_unblocked(&mut self) -> (BTreeSet<QueueKey>, Option<Duration>) {
        let now_ms = self.now_ms();
        while let Some((end_ms, queue)) = self.pause_ends.pop_first() {
            if end_ms > now_ms {
                self.pause_ends.insert((end_ms, queue));
                break;
            }
            self.unblocked.insert(queue);
        }
        let next_end = self.pause_ends.first().map(|(end_ms, _)| end_ms - now_ms);
        (
            std::mem::take(&mut self.unblocked),
            next_end.map(Duration::from_millis),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> QueueKey {
        QueueKey::try_from(name).unwrap()
    }

    /// Paused until this instant, or without an end.
    fn paused(until_ms: Option<u64>) -> Option<Row<Policy>> {
        stored(Policy {
            paused: true,
            paused_until: until_ms.map(Timestamp::saturating),
            ..Policy::default()
        })
    }

    fn stored(policy: Policy) -> Option<Row<Policy>> {
        Some(Row {
            revision: "1.00000000".parse().ok(),
            value: Ok(policy),
        })
    }

    fn changes(rows: &[(&str, Option<Row<Policy>>)], is_all: bool) -> TableChanges<Policy> {
        let rows = rows.iter();
        TableChanges {
            by_name: rows.map(|(name, row)| (queue(name), row.clone())).collect(),
            last: TableRevision::default(),
            is_all,
        }
    }

    fn some(rows: &[(&str, Option<Row<Policy>>)]) -> TableChanges<Policy> {
        changes(rows, false)
    }

    fn all(rows: &[(&str, Option<Row<Policy>>)]) -> TableChanges<Policy> {
        changes(rows, true)
    }

    fn unblocked(known: &mut KnownPolicies) -> Vec<String> {
        let (queues, _) = known.take_unblocked();
        queues.iter().map(QueueKey::to_string).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn queues_are_resumed_by_a_change_and_at_the_end_of_their_pause() {
        let mut known = KnownPolicies::default();
        known.set_clock(1000);
        known.apply(some(&[
            ("n/a", paused(None)),
            ("n/b", paused(Some(3000))),
            ("n/c", paused(Some(500))),
            ("n/d", stored(Policy::default())),
        ]));
        let is_paused = |known: &KnownPolicies| {
            ["n/a", "n/b", "n/c", "n/d", "n/e"].map(|name| known.is_paused(&queue(name)))
        };
        assert_eq!(is_paused(&known), [true, true, false, false, false]);
        assert_eq!(unblocked(&mut known), ["n/c"], "checked once, to be safe");
        let (queues, next) = known.take_unblocked();
        assert!(queues.is_empty());
        assert_eq!(next, Some(Duration::from_secs(2)));
        tokio::time::advance(Duration::from_millis(1999)).await;
        assert_eq!(unblocked(&mut known), [""; 0]);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(is_paused(&known), [true, false, false, false, false]);
        assert_eq!(unblocked(&mut known), ["n/b"]);
        known.apply(some(&[("n/a", None)]));
        assert_eq!(is_paused(&known), [false; 5]);
        assert_eq!(unblocked(&mut known), ["n/a"]);
        assert!(!known.has_pause_that_ends());
    }

    #[test]
    fn queues_that_may_have_more_running_jobs_are_unblocked() {
        let limited = |max_running| {
            stored(Policy {
                max_running,
                ..Policy::default()
            })
        };
        let mut known = KnownPolicies::default();
        for (max_running, is_unblocked) in [
            (Some(5), false),
            (Some(5), false),
            (Some(3), false),
            (Some(4), true),
            (None, true),
            (Some(9), false),
        ] {
            known.apply(some(&[("n/a", limited(max_running))]));
            let expected: &[&str] = if is_unblocked { &["n/a"] } else { &[] };
            assert_eq!(unblocked(&mut known), expected, "{max_running:?}");
        }
        known.apply(all(&[]));
        assert_eq!(unblocked(&mut known), ["n/a"], "the policy was removed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_of_the_whole_table_replaces_what_was_known() {
        let mut known = KnownPolicies::default();
        known.set_clock(1000);
        known.apply(all(&[("n/a", paused(None)), ("n/b", paused(Some(5000)))]));
        known.apply(all(&[("n/c", paused(None))]));
        assert_eq!(unblocked(&mut known), ["n/a", "n/b"]);
        assert!(!known.has_pause_that_ends());
        let names: Vec<String> = known
            .list(&NamespaceGrant::All, None, 9)
            .iter()
            .map(|(queue, _)| queue.to_string())
            .collect();
        assert_eq!(names, ["n/c"]);
        assert_eq!(known.list(&NamespaceGrant::All, Some(&queue("n/c")), 9), []);
    }

    #[test]
    fn no_pause_ends_before_the_clock_is_known() {
        let mut known = KnownPolicies::default();
        known.apply(some(&[("n/a", paused(Some(1)))]));
        assert!(known.is_paused(&queue("n/a")));
    }
}
