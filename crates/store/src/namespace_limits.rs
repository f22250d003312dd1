//! The limits of one namespace.

use serde::Deserialize;

/// The most that one namespace may have of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceLimits {
    /// Queues. A queue without jobs is forgotten within two minutes. Each bucket limits its share of them, so that the
    /// limit is not exact.
    pub queues: u32,
    /// Queues with a policy that differs from the defaults.
    pub policies: u32,
    /// Limits that queues share.
    pub limits: u32,
    pub schedules: u32,
    /// Relays that are set through the API.
    pub relays: u32,
    /// API keys for this namespace alone.
    pub api_keys: u32,
}

impl NamespaceLimits {
    /// For processes that create nothing on behalf of clients.
    pub const NONE: Self = Self {
        queues: u32::MAX,
        policies: u32::MAX,
        limits: u32::MAX,
        schedules: u32::MAX,
        relays: u32::MAX,
        api_keys: u32::MAX,
    };

    /// The most queues of a namespace in one bucket. Queues are spread at random: at `queues` of them, a bucket with
    /// four standard deviations more than the mean is unlikely. One bucket has them all: its limit is exact.
    pub(crate) fn queues_in_bucket(self, buckets: u32) -> u64 {
        let mean = f64::from(self.queues) / f64::from(buckets);
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
                ..NamespaceLimits::NONE
            };
            limits.queues_in_bucket(buckets)
        };
        assert_eq!(in_bucket(1, 256), 5);
        assert_eq!(in_bucket(1000, 256), 16);
        assert_eq!(in_bucket(100_000, 256), 474);
        assert!(in_bucket(u32::MAX, 256) > 1 << 24);
        assert_eq!(in_bucket(100, 1), 100);
    }
}
