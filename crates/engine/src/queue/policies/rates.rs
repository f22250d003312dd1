//! What the policy of a queue says about deliveries, and the limits that it may name.

use tidegate_core::{Namespace, Policy, QueueKey, Rate};
use tidegate_store::{NamespacedName, RateOwner, Row, TableChanges};

use super::known::KnownPolicies;

/// A rate that deliveries of a queue are subject to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRate {
    /// The queue, or the limit that it shares with others.
    pub owner: RateOwner,
    /// The rate.
    pub rate: Rate,
}

/// What the policy of a queue says about a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeliveryRules {
    /// Whether no jobs are delivered now.
    pub(crate) is_paused: bool,
    /// The length of leases for which a consumer asks for none, in ms.
    pub(crate) lease_ms: u64,
    /// The number of jobs that may be leased at a time; `None` = not limited.
    pub(crate) max_running: Option<u64>,
    /// The same of each group; `None` = not limited.
    pub(crate) group_max_running: Option<u64>,
    /// The rates from which a round takes units; none in most queues.
    pub(crate) rates: Vec<QueueRate>,
}

impl KnownPolicies {
    /// What the policy of a queue says about a round.
    pub(super) fn delivery_rules(&self, queue: &QueueKey) -> DeliveryRules {
        let policy = self.policy(queue);
        DeliveryRules {
            is_paused: self.is_paused(queue),
            lease_ms: policy.map_or(Policy::default().lease_ms, |policy| policy.lease_ms),
            max_running: policy.and_then(|policy| policy.max_running),
            group_max_running: policy.and_then(|policy| policy.groups.max_running),
            rates: self.rates(queue),
        }
    }

    /// The rates of a queue. A limit that does not exist limits nothing.
    pub(super) fn rates(&self, queue: &QueueKey) -> Vec<QueueRate> {
        let Some(policy) = self.policy(queue) else {
            return Vec::new();
        };
        let own = policy.rate.map(|rate| QueueRate {
            owner: RateOwner::Queue(queue.clone()),
            rate,
        });
        let shared = policy.limit.as_ref().and_then(|limit| {
            let name = NamespacedName {
                namespace: queue.namespace.clone(),
                name: limit.as_str().to_owned(),
            };
            let rate = *self.limit(&name)?;
            let owner = RateOwner::Limit(name);
            Some(QueueRate { owner, rate })
        });
        own.into_iter().chain(shared).collect()
    }

    /// The rate of a limit, if there is one with this name.
    pub(super) fn limit(&self, name: &NamespacedName) -> Option<&Rate> {
        self.limits.get(name)?.value.as_ref().ok()
    }

    /// The limits of a namespace, in the order of their names.
    pub(super) fn limits_of(&self, namespace: &Namespace) -> Vec<(NamespacedName, Row<Rate>)> {
        let of_namespace = self
            .limits
            .iter()
            .filter(|(name, _)| name.namespace == *namespace);
        of_namespace
            .map(|(name, row)| (name.clone(), row.clone()))
            .collect()
    }

    /// A queue whose policy names a limit.
    pub(super) fn queue_with_limit(&self, name: &NamespacedName) -> Option<QueueKey> {
        self.queues_with_limit(name).min().cloned()
    }

    fn queues_with_limit(&self, name: &NamespacedName) -> impl Iterator<Item = &QueueKey> {
        let names_it = move |(queue, row): &(&QueueKey, &Row<Policy>)| {
            let limit = row
                .value
                .as_ref()
                .ok()
                .and_then(|policy| policy.limit.as_ref());
            queue.namespace == name.namespace
                && limit.is_some_and(|limit| limit.as_str() == name.name)
        };
        self.entries.iter().filter(names_it).map(|(queue, _)| queue)
    }

    /// Applies what was read of the limits. Consumers of queues that name them may get jobs now.
    pub(super) fn apply_limits(&mut self, changes: TableChanges<Rate>) {
        self.last[1] = Some(changes.last);
        let mut by_name = changes.by_name;
        if changes.is_all {
            for name in self.limits.keys() {
                by_name.entry(name.clone()).or_insert(None);
            }
        }
        for (name, row) in by_name {
            if self.limits.get(&name) == row.as_ref() {
                continue;
            }
            let queues: Vec<QueueKey> = self.queues_with_limit(&name).cloned().collect();
            self.unblocked.extend(queues);
            if let Some(Err(damaged)) = row.as_ref().map(|row| &row.value) {
                let text = &damaged.text;
                tracing::warn!(limit = %name, text, "a stored limit cannot be read, it limits nothing: set the limit again");
            }
            match row {
                Some(row) => self.limits.insert(name, row),
                None => self.limits.remove(&name),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_store::TableRevision;

    use super::*;

    fn queue(name: &str) -> QueueKey {
        QueueKey::try_from(name).unwrap()
    }

    /// The queues that were unblocked since the last call.
    fn unblocked(known: &mut KnownPolicies) -> Vec<String> {
        let (queues, _) = known.take_unblocked();
        queues.iter().map(QueueKey::to_string).collect()
    }

    fn policies(rows: &[(&str, Option<Policy>)]) -> TableChanges<Policy> {
        let row = |policy: &Option<Policy>| {
            let value = Ok(policy.clone()?);
            let revision = "1.00000000".parse().ok();
            Some(Row { revision, value })
        };
        let rows = rows.iter();
        TableChanges {
            by_name: rows
                .map(|(name, policy)| (queue(name), row(policy)))
                .collect(),
            last: TableRevision::default(),
            is_all: false,
        }
    }

    fn rate(jobs: u64) -> Rate {
        Rate { jobs, per_ms: 1000 }
    }

    fn limits(rows: &[(&str, Option<Rate>)], is_all: bool) -> TableChanges<Rate> {
        let row = |rate: &Option<Rate>| {
            rate.map(|rate| Row {
                revision: "1.00000000".parse().ok(),
                value: Ok(rate),
            })
        };
        let rows = rows.iter();
        TableChanges {
            by_name: rows
                .map(|(name, rate)| (NamespacedName::try_from(*name).unwrap(), row(rate)))
                .collect(),
            last: TableRevision::default(),
            is_all,
        }
    }

    #[test]
    fn queues_with_another_rate_or_limit_are_unblocked() {
        let mut known = KnownPolicies::default();
        let of_queue = |rate, limit: Option<&str>| {
            Some(Policy {
                rate,
                limit: limit.map(|limit| limit.parse().unwrap()),
                ..Policy::default()
            })
        };
        known.apply_limits(limits(
            &[("n/smtp", Some(rate(5))), ("m/smtp", Some(rate(6)))],
            true,
        ));
        known.apply(policies(&[
            ("n/a", of_queue(Some(rate(1)), None)),
            ("n/b", of_queue(None, Some("smtp"))),
            ("n/c", of_queue(Some(rate(2)), Some("smtp"))),
            ("n/d", of_queue(None, Some("none"))),
        ]));
        assert_eq!(unblocked(&mut known), [""; 0], "none was held back before");
        let jobs = |known: &KnownPolicies, name: &str| -> Vec<u64> {
            let rates = known.rates(&queue(name));
            rates.iter().map(|it| it.rate.jobs).collect()
        };
        assert_eq!(jobs(&known, "n/a"), [1]);
        assert_eq!(jobs(&known, "n/b"), [5]);
        assert_eq!(jobs(&known, "n/c"), [2, 5]);
        assert_eq!(jobs(&known, "n/d"), [0; 0]);
        assert_eq!(jobs(&known, "n/e"), [0; 0]);

        known.apply_limits(limits(
            &[("n/smtp", Some(rate(5))), ("m/smtp", Some(rate(7)))],
            false,
        ));
        assert_eq!(unblocked(&mut known), [""; 0]);
        known.apply_limits(limits(&[("n/smtp", Some(rate(9)))], false));
        assert_eq!(unblocked(&mut known), ["n/b", "n/c"]);
        known.apply(policies(&[("n/a", of_queue(Some(rate(3)), None))]));
        assert_eq!(unblocked(&mut known), ["n/a"]);
        known.apply(policies(&[("n/a", None)]));
        assert_eq!(unblocked(&mut known), ["n/a"]);
        let smtp = NamespacedName::try_from("n/smtp").unwrap();
        assert_eq!(known.queue_with_limit(&smtp), Some(queue("n/b")));
        known.apply_limits(limits(&[], true));
        assert_eq!(unblocked(&mut known), ["n/b", "n/c"]);
        assert_eq!(jobs(&known, "n/c"), [2]);
    }
}
