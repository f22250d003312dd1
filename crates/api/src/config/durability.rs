//! The durability that publishes wait for, by namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use tidegate_core::{Durability, Namespace};
use tidegate_store::StoreConfig;

/// The least `durability.timeout`: a round trip and a write to disk take some milliseconds.
const TIMEOUT_MIN: Duration = Duration::from_millis(10);

/// The durability of jobs when their publish is answered with 201.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DurabilityConfig {
    /// For namespaces that are not in `namespaces`.
    #[serde(deserialize_with = "from_text")]
    pub default: Durability,
    /// The longest wait for it, from the moment the jobs are stored. Less than `requests.timeout`, if any namespace
    /// waits.
    #[serde(with = "tidegate_core::duration")]
    pub timeout: Duration,
    /// By `NAMESPACE`, or `POOL/NAMESPACE`, which takes precedence. The token names the pool, also while that pool
    /// moves.
    #[serde(deserialize_with = "by_name")]
    pub namespaces: BTreeMap<String, Durability>,
}

/// A durability in a map.
#[derive(Debug, Deserialize)]
struct DurabilityText(#[serde(deserialize_with = "from_text")] Durability);

fn by_name<'de, D: Deserializer<'de>>(map: D) -> Result<BTreeMap<String, Durability>, D::Error> {
    let read = BTreeMap::<String, DurabilityText>::deserialize(map)?;
    Ok(read
        .into_iter()
        .map(|(name, text)| (name, text.0))
        .collect())
}

/// Reads a durability. Errors of settings have no code of `/v1`.
fn from_text<'de, D: Deserializer<'de>>(text: D) -> Result<Durability, D::Error> {
    let text = String::deserialize(text)?;
    let read = text.parse::<Durability>();
    read.map_err(|invalid| D::Error::custom(invalid.detail))
}

impl DurabilityConfig {
    /// The durability that publishes to a namespace of a pool wait for.
    pub(crate) fn for_namespace(&self, pool: &str, namespace: &Namespace) -> Durability {
        if self.namespaces.is_empty() {
            return self.default;
        }
        let namespace = namespace.as_str();
        let of_pool = self.namespaces.get(&format!("{pool}/{namespace}"));
        let of_any = || self.namespaces.get(namespace);
        of_pool.or_else(of_any).copied().unwrap_or(self.default)
    }

    /// Every durability that publishes may wait for at the Redis of this pool, each once, without `memory`. Publishes
    /// to a pool that moves wait at the Redis of its target.
    pub(crate) fn required_at(
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
        let mut api_request = vec![self.default];
        api_request.extend(of_names.map(|(_, durability)| *durability));
        let mut seen = Vec::new();
        api_request.retain(|one| {
            let is_new = !one.is_memory() && !seen.contains(one);
            seen.push(*one);
            is_new
        });
        api_request
    }

    fn is_any_durable(&self) -> bool {
        let of_names = self.namespaces.values();
        of_names.chain([&self.default]).any(|one| !one.is_memory())
    }

    /// # Errors
    /// Names the invalid key and the reason.
    pub(super) fn check(
        &self,
        pools: &BTreeSet<&str>,
        request_timeout: Duration,
    ) -> Result<(), String> {
        let is_possible = (TIMEOUT_MIN..request_timeout).contains(&self.timeout);
        if self.is_any_durable() && !is_possible {
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
                "that is no valid name of a namespace"
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
        text.parse().unwrap()
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
    fn the_most_specific_name_takes_precedence() {
        let config = config(&[("jobs", "replica:1"), ("other/jobs", "fsync")]);
        let jobs = Namespace::try_from("jobs").unwrap();
        let rest = Namespace::try_from("rest").unwrap();
        assert_eq!(
            config.for_namespace("default", &jobs),
            durability("replica:1")
        );
        assert_eq!(config.for_namespace("other", &jobs), durability("fsync"));
        assert_eq!(config.for_namespace("other", &rest), Durability::MEMORY);
    }

    #[test]
    fn a_pool_is_checked_for_the_durabilities_of_the_jobs_it_stores() {
        let config = config(&[
            ("old/a", "fsync"),
            ("new/b", "replica:2"),
            ("c", "replica:1"),
        ]);
        let pool = StoreConfig::new("");
        let mut moving = pool.clone();
        moving.migrate_to = Some("new".to_owned());
        let pools = BTreeMap::from([("old".to_owned(), moving), ("new".to_owned(), pool)]);
        assert_eq!(config.required_at("old", &pools), []);
        let of_new = config.required_at("new", &pools);
        assert_eq!(of_new, ["replica:1", "replica:2", "fsync"].map(durability));
    }

    #[test]
    fn an_invalid_value_is_rejected_by_its_key() {
        let pools = BTreeSet::from(["default"]);
        let limit = Duration::from_secs(30);
        let message = |config: &DurabilityConfig| config.check(&pools, limit).unwrap_err();
        assert_eq!(
            config(&[("default/a", "fsync")]).check(&pools, limit),
            Ok(())
        );
        let unknown = message(&config(&[("nowhere/a", "fsync")]));
        assert!(
            unknown.contains("\"nowhere/a\": there is no such pool"),
            "{unknown}"
        );
        let no_name = message(&config(&[("a.b", "fsync")]));
        assert!(no_name.contains("no valid name"), "{no_name}");
        let mut long = config(&[("a", "fsync")]);
        long.timeout = limit;
        assert!(message(&long).contains("less than requests.timeout"));
        // If no namespace waits, the timeout is not used and not checked.
        long.namespaces.clear();
        assert_eq!(long.check(&pools, limit), Ok(()));
    }
}
