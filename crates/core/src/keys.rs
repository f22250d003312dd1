//! The names of all Redis keys and channels. `docs/redis-layout.md` describes their contents.
//!
//! All keys and channels of a bucket have the same hash tag, so on Redis Cluster they are on one node. The tag is a
//! number with the hash slot of the bucket; the number of the bucket precedes it. Scripts build the keys of records,
//! timers and lists from [`BucketKeys::prefix`].

mod bucket_key;

use std::sync::LazyLock;

pub use bucket_key::{BucketKey, KeyType, ReadyLine};

use crate::layout::CHUNK_JOBS;
use crate::{hash_slot, placement};

/// The prefix of every key.
pub const PREFIX: &str = "tg:";
/// The layout of a deployment: layout version, number of buckets, slot width in ms.
pub const LAYOUT: &str = "tg:layout";

/// The hash of access tokens of a namespace in a pool: field = token, value = description.
pub fn tokens(pool: &str, namespace: &str) -> String {
    format!("tg:tokens:{pool}/{namespace}")
}

/// The hash of API keys: field = id of the key, value = the rest of it as JSON.
pub const API_KEYS: &str = "tg:keys";

/// How the keys of the ids of API keys begin. They are in the hash slot of [`API_KEYS`].
const API_KEYS_OF: &str = "tg:keys_of:{tg:keys}:";

/// The hash of the ids of the API keys of a namespace, or of the keys for all namespaces (`*`): field = id, value =
/// nothing.
pub fn api_keys_of(namespaces: &str) -> String {
    format!("{API_KEYS_OF}{namespaces}")
}

/// The hash of rate limits: field = [`limit_holder`], value = consumes, publishes, length of a window in seconds.
pub const LIMITS: &str = "tg:limits";

/// The hash of queues with more than one lane: field = `namespace/queue`, value = lanes that are open,
/// lanes that are used, epoch; field `#` = the last epoch.
pub const LANES: &str = "tg:lanes";

/// The hash of policies: field = `namespace/queue`, value = revision and policy; field `#` = the last revision, field
/// `#<number>` = tag and queue of one of the last changes, field `namespace/` = the number of its policies.
pub const POLICIES: &str = "tg:policies";

/// The hash of limits that queues share: field = `namespace/limit`, value = revision and rate; other fields as in
/// [`POLICIES`].
pub const QUEUE_LIMITS: &str = "tg:queue_limits";

/// The hash of quotas: field = namespace, value = revision and limits as JSON; fields `#` and `#<number>` as in
/// [`POLICIES`].
pub const NAMESPACES: &str = "tg:namespaces";

/// The hash of relays: field = `namespace/relay`, value = revision and settings, with secrets; field `#` = the last
/// revision, field `namespace/` = the number of its relays.
pub const RELAYS: &str = "tg:relays";

/// The hash of the reports of daemons about relays, in the hash slot of [`RELAYS`]: field = `namespace/relay`, value =
/// revision of the relay, time of the report, rank of the state, process, and the status as JSON.
pub const RELAY_REPORTS: &str = "tg:{tg:relays}:reports";

/// How the keys of the schedules of namespaces begin.
const SCHEDULES: &str = "tg:schedules:";

/// The hash of the schedules of a namespace: field = name, value = revision and definition; field `#` = the last
/// revision.
pub fn schedules(namespace: &str) -> String {
    format!("{SCHEDULES}{namespace}")
}

/// The namespace whose schedules this key has, if it is such a key.
pub fn namespace_of_schedules(key: &str) -> Option<&str> {
    key.strip_prefix(SCHEDULES)
}

/// The string with the queues in which a namespace has a job with this key, for clients that name a job by its key
/// alone. It is a hint with a TTL.
pub fn directory(namespace: &str, key: &str) -> String {
    format!("tg:directory:{namespace}/{key}")
}

/// The field of a token in the hash of rate limits. A pool name has no colon and a namespace no slash, so the field is
/// unique.
pub fn limit_holder(pool: &str, namespace: &str, token: &str) -> String {
    [pool, ":", namespace, "/", token].concat()
}

/// The hash of units that a token has taken in the current window; `side` is `read` or `write`.
pub fn limit_units(side: &str, holder: &str) -> String {
    format!("tg:units:{side}:{holder}")
}

/// The keys of all buckets of a deployment.
#[derive(Debug)]
pub struct DeploymentKeys(Box<[BucketKeys]>);

impl DeploymentKeys {
    /// The keys of a deployment with this number of buckets.
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
    /// If the deployment does not have this bucket.
    pub fn keys(&self, bucket: u16) -> &BucketKeys {
        &self.0[usize::from(bucket)]
    }

    /// The bucket of a key, and the key without the prefix; `None` if the key belongs to no bucket.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketKeys {
    prefix: Box<str>,
}

impl BucketKeys {
    /// The prefix of every key of the bucket.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The hash with the record of this job, and its field there.
    pub fn record(&self, number: u64) -> (String, String) {
        let chunk = self.key(&BucketKey::Chunk(number / CHUNK_JOBS));
        (chunk, format!("{:02}", number % CHUNK_JOBS))
    }

    /// The full name of a key of the bucket.
    pub fn key(&self, key: &BucketKey) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Hash: `namespace/queue` → queue number.
    pub fn queues(&self) -> String {
        format!("{}queues", self.prefix)
    }

    /// How far the cold tier has thawed jobs.
    pub fn cold(&self) -> String {
        format!("{}cold", self.prefix)
    }

    /// The payload of a job that is stored outside of its record.
    pub fn body(&self, number: u64) -> String {
        format!("{}body:{number}", self.prefix)
    }

    /// An uploaded payload, before it becomes a body: `name` identifies the publish call, `index` the job in it.
    pub fn upload(&self, name: &str, index: usize) -> String {
        format!("{}upload:{name}:{index}", self.prefix)
    }

    /// List: the failures of a job, oldest first.
    pub fn log(&self, number: u64) -> String {
        format!("{}log:{number}", self.prefix)
    }

    /// Sorted set: namespace → when a pump looks at its schedules, in ms, for the schedules of queues whose first lane
    /// is in this bucket.
    pub fn schedules(&self) -> String {
        format!("{}schedules", self.prefix)
    }

    /// Sorted set: the name of a schedule of a namespace → when a pump looks at it, in ms.
    pub fn ticks(&self, namespace: &str) -> String {
        format!("{}ticks:{namespace}", self.prefix)
    }

    /// Hash: the tick of a schedule, whose name is `namespace/schedule`, and the definition that it was calculated
    /// from.
    pub fn schedule(&self, name: &str) -> String {
        format!("{}sched:{name}", self.prefix)
    }

    /// String: the units of the rate of a queue, in the bucket of its first lane.
    pub fn rate(&self, queue: &str) -> String {
        format!("{}rate:{queue}", self.prefix)
    }

    /// String: the units of a limit, whose name is `namespace/limit`.
    pub fn limit(&self, limit: &str) -> String {
        format!("{}limit:{limit}", self.prefix)
    }

    /// String: the units of the limit of publishes of a namespace.
    pub fn publishes(&self, namespace: &str) -> String {
        format!("{}publishes:{namespace}", self.prefix)
    }

    /// The token of the pump that leads the bucket.
    pub fn lock(&self) -> String {
        format!("{}lock", self.prefix)
    }

    /// Sorted set: the live pump instances of the bucket's server, and the ends of their memberships. One of the
    /// buckets of a server has it: [`placement::roster_bucket`].
    pub fn roster(&self) -> String {
        format!("{}roster", self.prefix)
    }

    /// The name of the pool in which new jobs are stored instead, while a pool moves.
    pub fn moves_to(&self) -> String {
        format!("{}moves_to", self.prefix)
    }

    /// A key that never exists. While the slot of the bucket moves, Redis Cluster answers a call that names it besides
    /// an existing key with `TRYAGAIN`. So the call never sees a part of the bucket.
    pub fn guard(&self) -> String {
        format!("{}guard", self.prefix)
    }

    /// A key that the script `barrier` writes and deletes in one step, to wait for copies of earlier writes. It does
    /// not exist between two calls.
    pub fn barrier(&self) -> String {
        format!("{}barrier", self.prefix)
    }

    /// The channel of the ends of jobs that clients wait for.
    pub fn bell(&self) -> String {
        format!("{}bell", self.prefix)
    }

    /// The channel of the doorbells of one process.
    pub fn bell_of(&self, waiter: &str) -> String {
        format!("{}bell:{waiter}", self.prefix)
    }

    /// The channel of alarms.
    pub fn alarm(&self) -> String {
        format!("{}alarm", self.prefix)
    }
}

/// The sorted set with the workers of a namespace, in the order of their names. Each process that knows a worker has an
/// entry: name of the worker, name of the process, end of the entry, and the worker.
pub fn workers(namespace: &str) -> String {
    format!("tg:workers:{namespace}")
}

/// Whether a key outside of all buckets belongs to a deployment.
pub fn is_of_deployment(key: &str) -> bool {
    let families = [
        API_KEYS_OF,
        "tg:directory:",
        SCHEDULES,
        "tg:tokens:",
        "tg:units:read:",
        "tg:units:write:",
        "tg:workers:",
    ];
    [
        LAYOUT,
        LIMITS,
        LANES,
        API_KEYS,
        POLICIES,
        QUEUE_LIMITS,
        NAMESPACES,
        RELAYS,
        RELAY_REPORTS,
    ]
    .contains(&key)
        || families.iter().any(|begin| key.starts_with(begin))
}

/// The bucket of a doorbell or alarm channel.
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
        let buckets = DeploymentKeys::new(256);
        let keys = buckets.keys(17);
        let slot = placement::hash_slot_of(17, 256);
        assert_eq!(&*keys.prefix, "tg:17:{13609}:");
        for (key, rest) in [
            (keys.queues(), "queues"),
            (keys.schedules(), "schedules"),
            (keys.ticks("shop"), "ticks:shop"),
            (keys.schedule("shop/daily"), "sched:shop/daily"),
            (keys.rate("shop/emails"), "rate:shop/emails"),
            (keys.limit("shop/smtp"), "limit:shop/smtp"),
            (keys.publishes("shop"), "publishes:shop"),
            (keys.lock(), "lock"),
            (keys.roster(), "roster"),
            (keys.moves_to(), "moves_to"),
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
            assert_eq!(DeploymentKeys::new(17).split(&key), None);
            assert_eq!(DeploymentKeys::new(128).split(&key), None, "another tag");
        }
        for nobodys in ["tg:17:{13609}", "tg:017:{13609}:seq", "g:17:{13609}:seq"] {
            assert_eq!(buckets.split(nobodys), None, "{nobodys}");
        }
        assert_eq!(bucket_of_channel(&limit_units("read", "1:{2}/t")), None);
        // A key may have any characters, braces too.
        for key in [
            directory("shop", "17:{13609}:c:1"),
            limit_units("read", "t"),
        ] {
            assert!(buckets.split(&key).is_none() && is_of_deployment(&key));
        }
    }

    #[test]
    fn no_two_buckets_share_a_key() {
        for count in [1, 256, placement::BUCKETS_MAX] {
            let buckets = DeploymentKeys::new(count);
            let prefixes: std::collections::HashSet<&str> =
                buckets.all().map(BucketKeys::prefix).collect();
            assert_eq!(prefixes.len(), count as usize);
        }
    }
}
