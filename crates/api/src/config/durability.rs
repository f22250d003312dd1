//! What publishes wait for, by namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use tidegate_core::Namespace;
use tidegate_store::{Durability, StoreConfig};

/// Less is no time for a round trip and a disk.
const TIMEOUT_MIN: Duration = Duration::from_millis(10);

/// How safe jobs are when their publish is answered.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DurabilityConfig {
    /// Where nothing is said about a namespace.
    pub default: Durability,
    /// The longest wait for it, once jobs are stored.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// By `NAMESPACE`, or `POOL/NAMESPACE`, which wins. The pool is the one that requests name.
    pub namespaces: BTreeMap<String, Durability>,
}

impl DurabilityConfig {
    /// What publishes to a namespace of a pool wait for.
    pub(crate) fn of(&self, pool: &str, namespace: &Namespace) -> Durability {
        if self.namespaces.is_empty() {
            return self.default;
        }
        let namespace = namespace.as_str();
        let of_pool = self.namespaces.get(&format!("{pool}/{namespace}"));
        let of_any = || self.namespaces.get(namespace);
        of_pool.or_else(of_any).copied().unwrap_or(self.default)
    }

    /// All that publishes may wait for at the Redis of this pool: its own and those of pools that move to it.
    pub(crate) fn asked_of(
        &self,
        pool: &str,
        pools: &BTreeMap<String, StoreConfig>,
    ) -> Vec<Durability> {
        let comes_here = |name: &str| {
            let target = pools.get(name).and_then(|pool| pool.migrate_to.as_deref());
            target.unwrap_or(name) == pool
        };
        if !pools.keys().any(|name| comes_here(name)) {
            return Vec::new();
        }
        let namespaces = self.namespaces.iter();
        let of_names = namespaces.filter(|(name, _)| match name.split_once('/') {
            Some((name, _)) => comes_here(name),
            None => true,
        });
        let mut asked = vec![self.default];
        asked.extend(of_names.map(|(_, durability)| *durability));
        let mut seen = Vec::new();
        asked.retain(|one| {
            let is_new = !one.is_memory() && !seen.contains(one);
            seen.push(*one);
            is_new
        });
        asked
    }

    fn anybody_waits(&self) -> bool {
        let of_names = self.namespaces.values();
        of_names.chain([&self.default]).any(|one| !one.is_memory())
    }

    /// # Errors
    /// Which key cannot be so, and why.
    pub(super) fn check(
        &self,
        pools: &BTreeSet<&str>,
        request_timeout: Duration,
    ) -> Result<(), String> {
        let is_possible = (TIMEOUT_MIN..request_timeout).contains(&self.timeout);
        if self.anybody_waits() && !is_possible {
            return Err(format!(
                "durability.timeout must be at least {TIMEOUT_MIN:?} and less than requests.timeout \
                 ({request_timeout:?}), not {:?}",
                self.timeout
            ));
        }
        for name in self.namespaces.keys() {
            let (pool, namespace) = match name.split_once('/') {
                Some((pool, namespace)) => (Some(pool), namespace),
                None => (None, name.as_str()),
            };
            let problem = if pool.is_some_and(|pool| !pools.contains(pool)) {
                "there is no such pool"
            } else if Namespace::try_from(namespace).is_err() {
                "no namespace has such a name"
            } else {
                continue;
            };
            return Err(format!(
                "durability.namespaces, {name:?}: {problem}; write NAMESPACE or POOL/NAMESPACE"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durability(text: &str) -> Durability {
        Durability::try_from(text.to_owned()).unwrap()
    }

    fn config(namespaces: &[(&str, &str)]) -> DurabilityConfig {
        let named = |(name, text): &(&str, &str)| ((*name).to_owned(), durability(text));
        DurabilityConfig {
            default: Durability::MEMORY,
            timeout: Duration::from_secs(3),
            namespaces: namespaces.iter().map(named).collect(),
        }
    }

    #[test]
    fn the_most_exact_name_counts() {
        let config = config(&[("jobs", "replica:1"), ("other/jobs", "fsync")]);
        let jobs = Namespace::try_from("jobs").unwrap();
        let rest = Namespace::try_from("rest").unwrap();
        assert_eq!(config.of("default", &jobs), durability("replica:1"));
        assert_eq!(config.of("other", &jobs), durability("fsync"));
        assert_eq!(config.of("other", &rest), Durability::MEMORY);
    }

    #[test]
    fn a_pool_is_asked_for_what_it_gets_to_store() {
        let config = config(&[
            ("old/a", "fsync"),
            ("new/b", "replica:2"),
            ("c", "replica:1"),
        ]);
        let pool = StoreConfig::new("");
        let mut moving = pool.clone();
        moving.migrate_to = Some("new".to_owned());
        let pools = BTreeMap::from([("old".to_owned(), moving), ("new".to_owned(), pool)]);
        assert_eq!(config.asked_of("old", &pools), []);
        let of_new = config.asked_of("new", &pools);
        assert_eq!(of_new, ["replica:1", "replica:2", "fsync"].map(durability));
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_key() {
        let pools = BTreeSet::from(["default"]);
        let limit = Duration::from_secs(30);
        let said = |config: &DurabilityConfig| config.check(&pools, limit).unwrap_err();
        assert_eq!(
            config(&[("default/a", "fsync")]).check(&pools, limit),
            Ok(())
        );
        let unknown = said(&config(&[("nowhere/a", "fsync")]));
        assert!(
            unknown.contains("\"nowhere/a\": there is no such pool"),
            "{unknown}"
        );
        let no_name = said(&config(&[("a.b", "fsync")]));
        assert!(no_name.contains("no namespace"), "{no_name}");
        let mut long = config(&[("a", "fsync")]);
        long.timeout = limit;
        assert!(said(&long).contains("less than requests.timeout"));
        // Where nobody waits it means nothing, so a short requests.timeout needs no other one.
        long.namespaces.clear();
        assert_eq!(long.check(&pools, limit), Ok(()));
    }
}
