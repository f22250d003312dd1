//! What a publish waits for before it succeeds. `docs/durability.md` describes which failures each level survives.

use std::fmt;

use serde::Deserialize;

/// Which copies of a job exist when its publish succeeds. Its text, in settings and on the wire, is `memory`,
/// `replica:N`, `fsync` or `fsync+replica:N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct Durability {
    /// Number of replicas that have it in their memory.
    pub replicas: u8,
    /// It is on the disk of its server.
    pub fsync: bool,
}

/// Jobs are stored, but the requested durability was not confirmed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("durability {wanted} was requested, {reached} was confirmed: {reason}")]
pub struct DurabilityError {
    /// The requested durability.
    pub wanted: Durability,
    /// The confirmed durability.
    pub reached: Durability,
    /// Why more was not confirmed.
    pub reason: String,
}

impl Durability {
    /// The job is in the memory of its server; the append-only file and replicas get it later.
    pub const MEMORY: Self = Self {
        replicas: 0,
        fsync: false,
    };

    /// The job is on the disk of its server.
    pub const FSYNC: Self = Self {
        replicas: 0,
        fsync: true,
    };

    /// Whether there is nothing to wait for.
    #[must_use]
    pub fn is_memory(self) -> bool {
        self == Self::MEMORY
    }

    /// All copies that at least one of them has.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            replicas: self.replicas.max(other.replicas),
            fsync: self.fsync || other.fsync,
        }
    }

    /// The copies that both have.
    pub(crate) fn at_most(self, other: Self) -> Self {
        Self {
            replicas: self.replicas.min(other.replicas),
            fsync: self.fsync && other.fsync,
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.fsync, self.replicas) {
            (false, 0) => out.write_str("memory"),
            (false, replicas) => write!(out, "replica:{replicas}"),
            (true, 0) => out.write_str("fsync"),
            (true, replicas) => write!(out, "fsync+replica:{replicas}"),
        }
    }
}

impl TryFrom<String> for Durability {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let replicas = |text: &str| -> Option<u8> {
            let number = text.strip_prefix("replica:")?.parse().ok()?;
            (number > 0).then_some(number)
        };
        let durability = match text.as_str() {
            "memory" => Some(Self::MEMORY),
            "fsync" => Some(Self {
                replicas: 0,
                fsync: true,
            }),
            text => {
                let of_replicas = text.strip_prefix("fsync+");
                let fsync = of_replicas.is_some();
                replicas(of_replicas.unwrap_or(text)).map(|replicas| Self { replicas, fsync })
            }
        };
        durability.ok_or_else(|| {
            format!(
                "durability must be \"memory\", \"replica:N\" with N from 1 to 255, \"fsync\" or \
                 \"fsync+replica:N\", not {text:?}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_round_trip() {
        for text in [
            "memory",
            "replica:1",
            "replica:255",
            "fsync",
            "fsync+replica:2",
        ] {
            let read = Durability::try_from(text.to_owned()).unwrap();
            assert_eq!(read.to_string(), text);
            assert_eq!(read.is_memory(), text == "memory");
        }
    }

    #[test]
    fn other_texts_are_rejected_with_the_valid_forms() {
        for text in [
            "",
            "Memory",
            "replica",
            "replica:0",
            "replica:256",
            "replica:-1",
            "fsync+",
            "fsync+memory",
            "fsyncreplica:1",
            "replica:1+fsync",
        ] {
            let said = Durability::try_from(text.to_owned()).unwrap_err();
            assert!(
                said.contains("replica:N") && said.contains(text),
                "{text}: {said}"
            );
        }
    }
}
