//! The one place that spells the names of Redis keys and channels. `docs/redis-layout.md` says what
//! each holds.
//!
//! Everything of a bucket carries the same hash tag, so on Redis Cluster it lives on one node. The tag is
//! a number that leads to the hash slot of the bucket; the number of the bucket stands before it.
//! Scripts build the keys of records, timers and lists from [`BucketKeys::prefix`]; the rest is
//! spelled here.

mod bucket_key;

use std::sync::LazyLock;

pub use bucket_key::{BucketKey, KeyType};

use crate::{hash_slot, placement};

/// What every key begins with.
pub const PREFIX: &str = "tg:";
/// The stamp of a deployment: layout version, number of buckets, width of slots.
pub const LAYOUT: &str = "tg:layout";

/// The hash of access tokens of a namespace in a pool: field = token, value = description.
#[must_use]
pub fn tokens(pool: &str, namespace: &str) -> String {
    format!("tg:tokens:{pool}/{namespace}")
}

/// The hash of rate limits: field = [`limit_holder`], value = units to read, units to write, seconds.
pub const LIMITS: &str = "tg:limits";

/// The hash of queues with more than one lane: field = `namespace/queue`, value = lanes that are open,
/// lanes that are used, when a lane was closed last in ms.
pub const LANES: &str = "tg:lanes";

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

/// The keys of all buckets of a deployment.
#[derive(Debug)]
pub struct Buckets(Box<[BucketKeys]>);

impl Buckets {
    /// The keys of so many buckets.
    #[must_use]
    pub fn new(buckets: u32) -> Self {
        static TAGS: LazyLock<Vec<u32>> = LazyLock::new(hash_slot::tags);
        let keys = |bucket: u32| {
            let bucket = u16::try_from(bucket).ok()?;
            let slot = placement::hash_slot_of(bucket, buckets);
            let tag = TAGS.get(usize::from(slot))?;
            Some(BucketKeys {
                prefix: format!("tg:{bucket}:{{{tag}}}:").into(),
            })
        };
        Self((0..buckets).filter_map(keys).collect())
    }

    /// The keys of a bucket.
    ///
    /// # Panics
    /// When the deployment does not have that many buckets.
    #[must_use]
    pub fn keys(&self, bucket: u16) -> &BucketKeys {
        &self.0[usize::from(bucket)]
    }

    /// The bucket that a key belongs to, and the rest of its name.
    #[must_use]
    pub fn split<'a>(&self, key: &'a str) -> Option<(u16, &'a str)> {
        let bucket = bucket_of_channel(key)?;
        let keys = self.0.get(usize::from(bucket))?;
        Some((bucket, key.strip_prefix(keys.prefix())?))
    }

    /// The keys of all buckets, in their order.
    pub fn all(&self) -> impl Iterator<Item = &BucketKeys> {
        self.0.iter()
    }
}

/// The keys of one bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketKeys {
    prefix: Box<str>,
}

impl BucketKeys {
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

    /// Sorted set: the live pump instances of the server that has the bucket, and the ends of their memberships. Of the
    /// buckets of a server one has it: [`placement::roster_bucket`].
    #[must_use]
    pub fn roster(&self) -> String {
        format!("{}roster", self.prefix)
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

/// Whether a key outside of all buckets is one of a deployment.
#[must_use]
pub fn is_of_deployment(key: &str) -> bool {
    let families = ["tg:tokens:", "tg:units:read:", "tg:units:write:"];
    [LAYOUT, LIMITS, LANES].contains(&key) || families.iter().any(|begin| key.starts_with(begin))
}

/// The bucket that a bell or alarm channel belongs to.
#[must_use]
pub fn bucket_of_channel(channel: &str) -> Option<u16> {
    let mut parts = channel.split(':').skip(1);
    let (bucket, tag) = (parts.next()?, parts.next()?);
    tag.starts_with('{').then(|| bucket.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_bucket_share_its_hash_slot() {
        let buckets = Buckets::new(256);
        let keys = buckets.keys(17);
        let slot = placement::hash_slot_of(17, 256);
        assert_eq!(&*keys.prefix, "tg:17:{13609}:");
        for (key, rest) in [
            (keys.queues(), "queues"),
            (keys.lock(), "lock"),
            (keys.roster(), "roster"),
            (keys.body(1_000_001), "body:1000001"),
            (keys.upload("a0", 3), "upload:a0:3"),
            (keys.guard(), "guard"),
            (keys.barrier(), "barrier"),
            (keys.alarm(), "alarm"),
            (keys.bell(), "bell"),
        ] {
            assert_eq!(key.strip_prefix(keys.prefix()), Some(rest));
            assert_eq!(hash_slot::hash_slot(key.as_bytes()), slot);
            assert_eq!(bucket_of_channel(&key), Some(17));
            assert_eq!(buckets.split(&key), Some((17, rest)));
            assert_eq!(Buckets::new(17).split(&key), None);
            assert_eq!(Buckets::new(128).split(&key), None, "another tag");
        }
        for nobodys in ["tg:17:{13609}", "tg:017:{13609}:seq", "g:17:{13609}:seq"] {
            assert_eq!(buckets.split(nobodys), None, "{nobodys}");
        }
        assert_eq!(bucket_of_channel(&limit_units("read", "1:{2}/t")), None);
    }

    #[test]
    fn no_two_buckets_share_a_key() {
        for count in [1, 256, placement::BUCKETS_MAX] {
            let buckets = Buckets::new(count);
            let prefixes: std::collections::HashSet<&str> =
                buckets.all().map(BucketKeys::prefix).collect();
            assert_eq!(prefixes.len(), count as usize);
        }
    }
}
