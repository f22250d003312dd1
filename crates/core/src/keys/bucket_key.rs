//! Which keys a bucket can have, and how to tell one by its name.

use std::fmt;

/// A key of a bucket: `docs/redis-layout.md` says what each holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum BucketKey {
    /// The last job number.
    Sequence,
    /// Records.
    Chunk(u64),
    /// The payload of this job, outside of its record.
    Body(u64),
    /// A payload on its way to becoming a body.
    Upload(String),
    /// Hints of the near timers of this queue.
    Near(u32),
    /// When each queue has to be looked at.
    Due,
    /// Hints of the timers of this slot.
    Far(u64),
    /// When each far slot is loaded.
    Slots,
    /// Hints of the ready jobs of this queue.
    Ready(u32),
    /// Hints of the dead jobs of this queue.
    Dead(u32),
    /// When each chunk has to be swept.
    Expiry,
    /// Names of queues.
    Queues,
    /// Name and counts of this queue.
    Queue(u32),
    /// The token of the pump that leads the bucket.
    Lock,
    /// The live pumps of the server.
    Roster,
    /// Records that were set aside.
    Corrupt,
    /// The body of a job that was set aside.
    CorruptBody(u64),
}

/// What Redis keeps under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// Bytes.
    String,
    /// Fields and values.
    Hash,
    /// A sequence.
    List,
    /// Members by score.
    SortedSet,
}

impl KeyType {
    /// The word that Redis has for it.
    #[must_use]
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
    /// The key with this name behind the prefix of its bucket; `None` if no bucket has such a key.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let key = match name.split_once(':') {
            None => match name {
                "seq" => Self::Sequence,
                "due" => Self::Due,
                "slots" => Self::Slots,
                "expiry" => Self::Expiry,
                "queues" => Self::Queues,
                "lock" => Self::Lock,
                "roster" => Self::Roster,
                "corrupt" => Self::Corrupt,
                _ => return None,
            },
            Some(("upload", rest)) => Self::Upload(rest.to_owned()),
            Some((family, rest)) => match family {
                "c" => Self::Chunk(rest.parse().ok()?),
                "body" => Self::Body(rest.parse().ok()?),
                "near" => Self::Near(rest.parse().ok()?),
                "far" => Self::Far(rest.parse().ok()?),
                "ready" => Self::Ready(rest.parse().ok()?),
                "dead" => Self::Dead(rest.parse().ok()?),
                "q" => Self::Queue(rest.parse().ok()?),
                "corrupt" => Self::CorruptBody(rest.parse().ok()?),
                _ => return None,
            },
        };
        // A number is spelled in one way only: `c:007` is nobody's.
        (key.to_string() == name).then_some(key)
    }

    /// What Redis keeps under it.
    #[must_use]
    pub const fn key_type(&self) -> KeyType {
        match self {
            Self::Sequence
            | Self::Body(_)
            | Self::Upload(_)
            | Self::Lock
            | Self::CorruptBody(_) => KeyType::String,
            Self::Chunk(_) | Self::Queues | Self::Queue(_) | Self::Corrupt => KeyType::Hash,
            Self::Far(_) | Self::Ready(_) | Self::Dead(_) => KeyType::List,
            Self::Near(_) | Self::Due | Self::Slots | Self::Expiry | Self::Roster => {
                KeyType::SortedSet
            }
        }
    }
}

impl fmt::Display for BucketKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sequence => out.write_str("seq"),
            Self::Chunk(chunk) => write!(out, "c:{chunk}"),
            Self::Body(number) => write!(out, "body:{number}"),
            Self::Upload(name) => write!(out, "upload:{name}"),
            Self::Near(queue) => write!(out, "near:{queue}"),
            Self::Due => out.write_str("due"),
            Self::Far(slot) => write!(out, "far:{slot}"),
            Self::Slots => out.write_str("slots"),
            Self::Ready(queue) => write!(out, "ready:{queue}"),
            Self::Dead(queue) => write!(out, "dead:{queue}"),
            Self::Expiry => out.write_str("expiry"),
            Self::Queues => out.write_str("queues"),
            Self::Queue(queue) => write!(out, "q:{queue}"),
            Self::Lock => out.write_str("lock"),
            Self::Roster => out.write_str("roster"),
            Self::Corrupt => out.write_str("corrupt"),
            Self::CorruptBody(number) => write!(out, "corrupt:{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_told_by_its_name_and_nothing_else_is_one() {
        for name in [
            "seq",
            "c:10000",
            "body:1000001",
            "upload:a0:3",
            "near:1",
            "due",
            "far:27",
            "slots",
            "ready:1",
            "dead:1",
            "expiry",
            "queues",
            "q:4294967295",
            "lock",
            "roster",
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
            "q:4294967296",
            "bell",
            "seq:1",
            "lock ",
        ] {
            assert_eq!(BucketKey::parse(name), None, "{name}");
        }
    }
}
