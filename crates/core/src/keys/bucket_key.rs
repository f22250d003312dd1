//! The kinds of keys of a bucket, and how their names are parsed.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use crate::group_hash::GroupHash;
use crate::timer_slot::FarSlot;

/// A key of a bucket. `docs/redis-layout.md` describes the contents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum BucketKey {
    /// The last job number.
    Sequence,
    /// The records of up to 100 jobs.
    Chunk(u64),
    /// The payload of this job, stored outside of its record.
    Body(u64),
    /// An uploaded payload, before it becomes a body.
    Upload(String),
    /// Jobs by the hashes of their keys; one of several such hashes.
    KeyIndex(u8),
    /// The first requests with idempotency keys; one of several such hashes.
    Idempotency(IdempotencyShard),
    /// The version of this job that waits for the end of its lease.
    Next(u64),
    /// The payload of such a version, stored outside of it.
    NextBody(u64),
    /// The failures of this job.
    Log(u64),
    /// Near timers of this queue: hints by due time.
    Near(u32),
    /// Queues by the time at which `move_due` serves them.
    Due,
    /// Far timers of this slot: hints.
    Far(FarSlot),
    /// Far slots by the time at which `load_slot` loads them.
    Slots,
    /// Hints of the ready jobs of this queue with priority 0.
    Ready(u32),
    /// Hints of the ready jobs of another line.
    Line(ReadyLine),
    /// The lines of this queue by their turns.
    Turns(u32),
    /// The number of leased jobs of each group of this queue.
    Running(u32),
    /// Hints of the dead jobs of this queue.
    Dead(u32),
    /// Chunks by the time at which `sweep` reads them.
    Expiry,
    /// The queues and chunks that the sweep has to clean up, by due time.
    Cleanup,
    /// The number of stale far hints, and how far the sweep has cleaned up lists.
    Stale,
    /// Numbers of queues by name.
    Queues,
    /// Name and counts of this queue.
    Queue(u32),
    /// Namespaces by the time at which a pump looks at their schedules.
    Schedules,
    /// The schedules of this namespace by their next tick.
    Ticks(String),
    /// The tick of this schedule, with the revision and times that it was calculated for.
    Schedule(String),
    /// The units of the rate of this queue.
    Rate(String),
    /// The units of this limit.
    Limit(String),
    /// The units of the limit of publishes of this namespace.
    Publishes(String),
    /// How far the cold tier has thawed jobs.
    Cold,
    /// How many hints of each far slot were looked at by the cold tier.
    ColdWalk,
    /// The token of the pump that leads the bucket.
    Lock,
    /// The live pumps of the server, by the end of their membership.
    Roster,
    /// The pool in which new jobs are stored instead.
    MovesTo,
    /// The processes that registered in this period as waiting for jobs, by queue.
    Waiting(u64),
    /// Damaged records that an audit has set aside.
    Corrupt,
    /// The body of a job whose record was set aside.
    CorruptBody(u64),
}

/// The ready jobs of a queue that have one priority and one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadyLine {
    /// The number of the queue.
    pub queue: u32,
    /// At least 1 without a group: jobs of priority 0 without a group are in the first line.
    pub priority: u8,
    /// The hash of the group.
    pub group: Option<GroupHash>,
}

impl fmt::Display for ReadyLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.queue, self.priority)?;
        match self.group {
            Some(group) => write!(out, ":{group}"),
            None => Ok(()),
        }
    }
}

impl FromStr for ReadyLine {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let (queue, line) = text.split_once(':').unwrap_or((text, ""));
        let (priority, group) = match line.split_once(':') {
            Some((priority, group)) => (priority, Some(group.parse()?)),
            None => (line, None),
        };
        Ok(Self {
            queue: queue.parse()?,
            priority: priority.parse()?,
            group,
        })
    }
}

/// A hash with the idempotency keys of a window of time whose own hashes begin with the same byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdempotencyShard {
    /// The number of the window.
    pub generation: u64,
    /// The number of the hash.
    pub shard: u8,
}

impl fmt::Display for IdempotencyShard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.generation, self.shard)
    }
}

impl FromStr for IdempotencyShard {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let (generation, shard) = text.split_once(':').unwrap_or((text, ""));
        Ok(Self {
            generation: generation.parse()?,
            shard: shard.parse()?,
        })
    }
}

/// The Redis type of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    String,
    Hash,
    List,
    SortedSet,
}

impl KeyType {
    /// The name of the type as `TYPE` returns it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Hash => "hash",
            Self::List => "list",
            Self::SortedSet => "zset",
        }
    }
}

impl BucketKey {
    /// Parses the name of a key without the prefix of its bucket; `None` if no bucket has such a key.
    pub fn parse(name: &str) -> Option<Self> {
        let key = match name.split_once(':') {
            None => match name {
                "seq" => Self::Sequence,
                "due" => Self::Due,
                "slots" => Self::Slots,
                "expiry" => Self::Expiry,
                "cleanup" => Self::Cleanup,
                "stale" => Self::Stale,
                "queues" => Self::Queues,
                "schedules" => Self::Schedules,
                "lock" => Self::Lock,
                "roster" => Self::Roster,
                "moves_to" => Self::MovesTo,
                "cold" => Self::Cold,
                "cold_walk" => Self::ColdWalk,
                "corrupt" => Self::Corrupt,
                _ => return None,
            },
            Some(("upload", rest)) => Self::Upload(rest.to_owned()),
            Some(("ticks", rest)) => Self::Ticks(rest.to_owned()),
            Some(("sched", rest)) => Self::Schedule(rest.to_owned()),
            Some(("rate", rest)) => Self::Rate(rest.to_owned()),
            Some(("limit", rest)) => Self::Limit(rest.to_owned()),
            Some(("publishes", rest)) => Self::Publishes(rest.to_owned()),
            Some((family, rest)) => match family {
                "c" => Self::Chunk(rest.parse().ok()?),
                "body" => Self::Body(rest.parse().ok()?),
                "k" => Self::KeyIndex(rest.parse().ok()?),
                "idem" => Self::Idempotency(rest.parse().ok()?),
                "next" => Self::Next(rest.parse().ok()?),
                "next_body" => Self::NextBody(rest.parse().ok()?),
                "log" => Self::Log(rest.parse().ok()?),
                "near" => Self::Near(rest.parse().ok()?),
                "far" => Self::Far(rest.parse().ok()?),
                "ready" if rest.contains(':') => Self::Line(rest.parse().ok()?),
                "ready" => Self::Ready(rest.parse().ok()?),
                "turns" => Self::Turns(rest.parse().ok()?),
                "running" => Self::Running(rest.parse().ok()?),
                "dead" => Self::Dead(rest.parse().ok()?),
                "q" => Self::Queue(rest.parse().ok()?),
                "waiting" => Self::Waiting(rest.parse().ok()?),
                "corrupt" => Self::CorruptBody(rest.parse().ok()?),
                _ => return None,
            },
        };
        // Numbers have one spelling only: `c:007` is not a key of Tidegate.
        (key.to_string() == name).then_some(key)
    }

    /// The Redis type of this key.
    pub fn key_type(&self) -> KeyType {
        self.parts().2
    }

    /// The first part of the name of this key, the part behind the colon, and the Redis type.
    fn parts(&self) -> (&'static str, Option<&dyn fmt::Display>, KeyType) {
        match self {
            Self::Sequence => ("seq", None, KeyType::String),
            Self::Chunk(chunk) => ("c", Some(chunk), KeyType::Hash),
            Self::Body(number) => ("body", Some(number), KeyType::String),
            Self::Upload(name) => ("upload", Some(name), KeyType::String),
            Self::KeyIndex(shard) => ("k", Some(shard), KeyType::Hash),
            Self::Idempotency(shard) => ("idem", Some(shard), KeyType::Hash),
            Self::Next(number) => ("next", Some(number), KeyType::String),
            Self::NextBody(number) => ("next_body", Some(number), KeyType::String),
            Self::Log(number) => ("log", Some(number), KeyType::List),
            Self::Near(queue) => ("near", Some(queue), KeyType::SortedSet),
            Self::Due => ("due", None, KeyType::SortedSet),
            Self::Far(slot) => ("far", Some(slot), KeyType::List),
            Self::Slots => ("slots", None, KeyType::SortedSet),
            Self::Ready(queue) => ("ready", Some(queue), KeyType::List),
            Self::Line(line) => ("ready", Some(line), KeyType::List),
            Self::Turns(queue) => ("turns", Some(queue), KeyType::SortedSet),
            Self::Running(queue) => ("running", Some(queue), KeyType::Hash),
            Self::Dead(queue) => ("dead", Some(queue), KeyType::List),
            Self::Expiry => ("expiry", None, KeyType::SortedSet),
            Self::Cleanup => ("cleanup", None, KeyType::SortedSet),
            Self::Stale => ("stale", None, KeyType::Hash),
            Self::Queues => ("queues", None, KeyType::Hash),
            Self::Queue(queue) => ("q", Some(queue), KeyType::Hash),
            Self::Schedules => ("schedules", None, KeyType::SortedSet),
            Self::Ticks(namespace) => ("ticks", Some(namespace), KeyType::SortedSet),
            Self::Schedule(name) => ("sched", Some(name), KeyType::Hash),
            Self::Rate(queue) => ("rate", Some(queue), KeyType::String),
            Self::Limit(limit) => ("limit", Some(limit), KeyType::String),
            Self::Publishes(namespace) => ("publishes", Some(namespace), KeyType::String),
            Self::Lock => ("lock", None, KeyType::String),
            Self::Roster => ("roster", None, KeyType::SortedSet),
            Self::MovesTo => ("moves_to", None, KeyType::String),
            Self::Cold => ("cold", None, KeyType::Hash),
            Self::ColdWalk => ("cold_walk", None, KeyType::Hash),
            Self::Waiting(period) => ("waiting", Some(period), KeyType::Hash),
            Self::Corrupt => ("corrupt", None, KeyType::Hash),
            Self::CorruptBody(number) => ("corrupt", Some(number), KeyType::String),
        }
    }
}

impl fmt::Display for BucketKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            (name, None, _) => out.write_str(name),
            (name, Some(rest), _) => write!(out, "{name}:{rest}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_keys_are_parsed_and_other_names_are_rejected() {
        for name in [
            "seq",
            "c:10000",
            "body:1000001",
            "upload:a0:3",
            "k:127",
            "idem:2950000:7",
            "next:1000001",
            "next_body:1000001",
            "log:1000001",
            "near:1",
            "due",
            "far:1:27",
            "slots",
            "ready:1",
            "ready:1:4",
            "ready:1:0:17:4294967295",
            "turns:1",
            "running:1",
            "dead:1",
            "expiry",
            "cleanup",
            "stale",
            "queues",
            "q:4294967295",
            "schedules",
            "ticks:shop",
            "sched:shop/daily",
            "rate:shop/emails",
            "limit:shop/smtp",
            "lock",
            "roster",
            "moves_to",
            "cold",
            "cold_walk",
            "waiting:498776",
            "corrupt",
            "corrupt:1000001",
        ] {
            assert_eq!(BucketKey::parse(name).unwrap().to_string(), name);
        }
        for name in [
            "",
            "c",
            "c:",
            "c:007",
            "c:+7",
            "c:x",
            "near:-1",
            "far:27",
            "k:256",
            "ready:1:4:5",
            "ready:1:4:5:4294967296",
            "idem:1",
            "idem:1:256",
            "idem:01:2",
            "far:5:27",
            "q:4294967296",
            "bell",
            "seq:1",
            "lock ",
        ] {
            assert_eq!(BucketKey::parse(name), None, "{name}");
        }
    }
}
