//! The one place that spells the names of Redis keys and channels. `docs/redis-layout.md` says what
//! each holds.
//!
//! Everything of a bucket carries the hash tag `{bucket}`, so on Redis Cluster it lives on one node.
//! Scripts build the keys of records, timers and lists from [`BucketKeys::prefix`]; the rest is
//! spelled here.

mod bucket_key;

pub use bucket_key::{BucketKey, KeyType};

/// What every key begins with.
pub const PREFIX: &str = "tg:";
/// The stamp of layout version and bucket count.
pub const LAYOUT: &str = "tg:layout";
/// Sorted set of live pump instances, scored by the end of their membership.
pub const ROSTER: &str = "tg:{roster}";
/// Channel that tells pumps that the roster changed.
pub const ROSTER_CHANNEL: &str = "tg:{roster}:changed";

/// The hash of access tokens of a namespace in a pool: field = token, value = description.
#[must_use]
pub fn tokens(pool: &str, namespace: &str) -> String {
    format!("tg:tokens:{pool}/{namespace}")
}

/// The hash of rate limits: field = [`limit_holder`], value = units to read, units to write, seconds.
pub const LIMITS: &str = "tg:limits";

/// A token, as the table of rate limits names it. No pool has a colon and no namespace a slash in its
/// name, so no two tokens share one.
#[must_use]
pub fn limit_holder(pool: &str, namespace: &str, token: &str) -> String {
    format!("{pool}:{namespace}/{token}")
}

/// What a token has done in the running window; `side` is `read` or `write`.
#[must_use]
pub fn limit_units(side: &str, holder: &str) -> String {
    format!("tg:units:{side}:{holder}")
}

/// The keys of one bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketKeys {
    prefix: String,
}

impl BucketKeys {
    /// The keys of this bucket.
    #[must_use]
    pub fn new(bucket: u16) -> Self {
        Self {
            prefix: format!("tg:{{{bucket}}}:"),
        }
    }

    /// What every key of the bucket begins with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The full name of one of them.
    #[must_use]
    pub fn key(&self, key: &BucketKey) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Hash: `namespace/queue` → queue number.
    #[must_use]
    pub fn queues(&self) -> String {
        format!("{}queues", self.prefix)
    }

    /// The payload of a job that is stored outside of its record.
    #[must_use]
    pub fn body(&self, number: u64) -> String {
        format!("{}body:{number}", self.prefix)
    }

    /// A payload on its way to becoming a body: the one with this index of the call that publishes under
    /// this name.
    #[must_use]
    pub fn upload(&self, name: &str, index: usize) -> String {
        format!("{}upload:{name}:{index}", self.prefix)
    }

    /// The token of the pump that leads the bucket.
    #[must_use]
    pub fn lock(&self) -> String {
        format!("{}lock", self.prefix)
    }

    /// A key that never exists. A call that names it beside a key that it is about is put off by a
    /// Redis Cluster as long as the slot of the bucket moves, and so finds the bucket whole.
    #[must_use]
    pub fn guard(&self) -> String {
        format!("{}guard", self.prefix)
    }

    /// A key that never exists between two calls: written and deleted in one step by whoever waits for
    /// copies of what was written before.
    #[must_use]
    pub fn barrier(&self) -> String {
        format!("{}barrier", self.prefix)
    }

    /// Channel of the doorbell.
    #[must_use]
    pub fn bell(&self) -> String {
        format!("{}bell", self.prefix)
    }

    /// Channel of the alarm.
    #[must_use]
    pub fn alarm(&self) -> String {
        format!("{}alarm", self.prefix)
    }
}

/// The bucket that a key belongs to, and the rest of its name.
#[must_use]
pub fn split(key: &str) -> Option<(u16, &str)> {
    let rest = key.strip_prefix(PREFIX)?.strip_prefix('{')?;
    let (bucket, rest) = rest.split_once("}:")?;
    let number = bucket.parse::<u16>().ok()?;
    (number.to_string() == bucket).then_some((number, rest))
}

/// Whether a key outside of all buckets is one of a deployment.
#[must_use]
pub fn is_of_deployment(key: &str) -> bool {
    let families = ["tg:tokens:", "tg:units:read:", "tg:units:write:"];
    [LAYOUT, ROSTER, LIMITS].contains(&key) || families.iter().any(|begin| key.starts_with(begin))
}

/// The bucket that a bell or alarm channel belongs to.
#[must_use]
pub fn bucket_of_channel(channel: &str) -> Option<u16> {
    let (_, rest) = channel.split_once('{')?;
    rest.split_once('}')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_bucket_share_its_hash_tag() {
        let keys = BucketKeys::new(17);
        assert_eq!(keys.queues(), "tg:{17}:queues");
        assert_eq!(keys.lock(), "tg:{17}:lock");
        assert_eq!(keys.body(1_000_001), "tg:{17}:body:1000001");
        assert_eq!(keys.upload("a0", 3), "tg:{17}:upload:a0:3");
        assert_eq!(keys.guard(), "tg:{17}:guard");
        assert_eq!(keys.barrier(), "tg:{17}:barrier");
        assert_eq!(bucket_of_channel(&keys.alarm()), Some(17));
        assert_eq!(bucket_of_channel(&keys.bell()), Some(17));
        assert_eq!(bucket_of_channel(ROSTER_CHANNEL), None);
    }
}
