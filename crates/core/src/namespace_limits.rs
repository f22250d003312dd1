//! The limits of one namespace.

use serde::{Deserialize, Serialize};

use crate::limits::{MAX_JOBS_MAX, RATE_JOBS_MAX};

/// The most that one namespace may have of each kind. The settings have the defaults of all namespaces: there, a kind
/// that is absent is not limited. The quota of a namespace has the same fields: a kind that is absent has its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceLimits {
    /// Queues. A queue without jobs is forgotten within two minutes. Each bucket limits its share of them, so that the
    /// limit is not exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<u64>,
    /// Queues with a policy that differs from the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<u64>,
    /// Limits that queues share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<u64>,
    /// Schedules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedules: Option<u64>,
    /// Relays that are set through the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relays: Option<u64>,
    /// API keys for this namespace alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_keys: Option<u64>,
    /// Delayed, ready, leased and dead jobs of all queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u64>,
    /// Jobs that are published in a second, on all wires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publishes_per_second: Option<u64>,
    /// Requests that wait for jobs or results in one API process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_consumers: Option<u64>,
}

/// A limit of a namespace is out of its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{name} should be from {min} to {max}, or null for the default")]
pub struct InvalidNamespaceLimit {
    /// The name of the limit.
    pub name: &'static str,
    min: u64,
    max: u64,
}

/// The least and the most of each limit, in the order of the fields.
const BOUNDS: [(u64, u64); 9] = [
    (100, 10_000_000),
    (1, 1_000_000),
    (1, 1_000_000),
    (1, 100_000),
    (1, 10_000),
    (1, 1_000_000),
    (1, MAX_JOBS_MAX),
    (1, RATE_JOBS_MAX),
    (1, 1_000_000),
];

impl NamespaceLimits {
    /// The names and values of all limits.
    pub const fn by_name(&self) -> [(&'static str, Option<u64>); 9] {
        [
            ("queues", self.queues),
            ("policies", self.policies),
            ("limits", self.limits),
            ("schedules", self.schedules),
            ("relays", self.relays),
            ("api_keys", self.api_keys),
            ("jobs", self.jobs),
            ("publishes_per_second", self.publishes_per_second),
            ("waiting_consumers", self.waiting_consumers),
        ]
    }

    /// The names and bounds of all limits.
    pub fn bounds() -> impl Iterator<Item = (&'static str, (u64, u64))> {
        let names = Self::default().by_name();
        names.into_iter().map(|(name, _)| name).zip(BOUNDS)
    }

    /// Checks the bounds of all values.
    ///
    /// # Errors
    /// The first value that is out of its bounds.
    pub fn check(&self) -> Result<(), InvalidNamespaceLimit> {
        for ((name, value), (min, max)) in self.by_name().into_iter().zip(BOUNDS) {
            if value.is_some_and(|value| value < min || value > max) {
                return Err(InvalidNamespaceLimit { name, min, max });
            }
        }
        Ok(())
    }

    /// The same, where each absent limit is taken from `defaults`.
    #[must_use]
    pub fn or(self, defaults: Self) -> Self {
        Self {
            queues: self.queues.or(defaults.queues),
            policies: self.policies.or(defaults.policies),
            limits: self.limits.or(defaults.limits),
            schedules: self.schedules.or(defaults.schedules),
            relays: self.relays.or(defaults.relays),
            api_keys: self.api_keys.or(defaults.api_keys),
            jobs: self.jobs.or(defaults.jobs),
            publishes_per_second: self.publishes_per_second.or(defaults.publishes_per_second),
            waiting_consumers: self.waiting_consumers.or(defaults.waiting_consumers),
        }
    }

    /// The most queues of a namespace in one bucket. Queues are spread at random: at `queues` of them, a bucket with
    /// four standard deviations more than the mean is unlikely. One bucket has them all: its limit is exact.
    pub fn queues_in_bucket(self, buckets: u32) -> u64 {
        let queues = self.queues.unwrap_or(u32::MAX.into());
        let mean = queues as f64 / f64::from(buckets);
        let elsewhere = 1.0 - 1.0 / f64::from(buckets);
        (mean + 4.0 * (mean * elsewhere).sqrt() + 4.0 * elsewhere).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_allows_more_than_its_share_of_the_queues() {
        let in_bucket = |queues, buckets| {
            let limits = NamespaceLimits {
                queues,
                ..NamespaceLimits::default()
            };
            limits.queues_in_bucket(buckets)
        };
        assert_eq!(in_bucket(Some(1), 256), 5);
        assert_eq!(in_bucket(Some(1000), 256), 16);
        assert_eq!(in_bucket(Some(100_000), 256), 474);
        assert!(in_bucket(None, 256) > 1 << 24);
        assert_eq!(in_bucket(Some(100), 1), 100);
    }

    #[test]
    fn a_quota_overrides_the_defaults_and_is_checked() {
        fn read(text: &str) -> serde_json::Result<NamespaceLimits> {
            serde_json::from_str(text)
        }
        let quota = read(r#"{"jobs":5,"queues":null}"#).unwrap();
        let defaults = read(r#"{"jobs":9,"queues":200,"relays":7}"#).unwrap();
        let limits = quota.or(defaults);
        assert_eq!(
            serde_json::to_string(&limits).unwrap(),
            r#"{"queues":200,"relays":7,"jobs":5}"#
        );
        assert_eq!(limits.check(), Ok(()));
        for (name, (min, max)) in NamespaceLimits::bounds() {
            for bad in [min - 1, max + 1] {
                let bad = read(&format!(r#"{{"{name}":{bad}}}"#)).unwrap();
                assert_eq!(bad.check().unwrap_err().name, name);
            }
        }
        for bad in [r#"{"bytes":1}"#, r#"{"jobs":-1}"#, r#"{"jobs":"5"}"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
