//! Durability: the copies of a job that exist when its publish is answered. `docs/durability.md` describes which
//! failures each level survives.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::v1::problem::InvalidValue;

/// The copies of a job when its publish is answered: in the memory of the master alone, on its disk, or on replicas
/// too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Durability {
    /// How many replicas have the job in memory, or, with `fsync`, on disk.
    pub replicas: u8,
    /// Whether the job is on the disk of the master.
    pub fsync: bool,
}

impl Durability {
    /// The memory of the master. The append-only file and replicas get the job later.
    pub const MEMORY: Self = Self {
        replicas: 0,
        fsync: false,
    };

    /// The disk of the master.
    pub const FSYNC: Self = Self {
        replicas: 0,
        fsync: true,
    };

    #[cfg(feature = "openapi")]
    pub(crate) const TEXT_BYTES_MAX: usize = "fsync+replica:255".len();

    /// Whether there is nothing to wait for.
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
    #[must_use]
    pub fn at_most(self, other: Self) -> Self {
        Self {
            replicas: self.replicas.min(other.replicas),
            fsync: self.fsync && other.fsync,
        }
    }
}

impl FromStr for Durability {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let replicas = |text: &str| {
            let digits = text.strip_prefix("replica:")?;
            let is_plain =
                digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
            digits.parse::<u8>().ok().filter(|_| is_plain)
        };
        let level = match text {
            "memory" => Some(Self::MEMORY),
            "fsync" => Some(Self::FSYNC),
            _ => {
                let of_fsync = text.strip_prefix("fsync+");
                let fsync = of_fsync.is_some();
                replicas(of_fsync.unwrap_or(text)).map(|replicas| Self { replicas, fsync })
            }
        };
        level.ok_or_else(|| {
            // A query has `+` for a space.
            let hint = match text.starts_with("fsync ") {
                true => "; in a query, write the + as %2B",
                false => "",
            };
            InvalidValue::new(format!(
                "{text:?} is not a durability: use memory, replica:N with N from 1 to 255, fsync or fsync+replica:N{hint}"
            ))
        })
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
    type Error = InvalidValue;

    fn try_from(text: String) -> Result<Self, InvalidValue> {
        text.parse()
    }
}

impl From<Durability> for String {
    fn from(level: Durability) -> Self {
        level.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plus_that_a_query_has_read_as_a_space_is_explained() {
        let error = "fsync replica:1".parse::<Durability>().unwrap_err();
        assert!(error.detail.ends_with("write the + as %2B"), "{error}");
    }

    #[test]
    fn every_level_is_read_as_it_is_written() {
        for replicas in 0..=u8::MAX {
            for fsync in [false, true] {
                let level = Durability { replicas, fsync };
                assert_eq!(level.to_string().parse(), Ok(level));
                #[cfg(feature = "openapi")]
                assert!(level.to_string().len() <= Durability::TEXT_BYTES_MAX);
                assert_eq!(level.is_memory(), level.to_string() == "memory");
            }
        }
        let json = serde_json::to_string(&Durability::MEMORY).unwrap();
        assert_eq!(json, "\"memory\"");
        assert_eq!(
            serde_json::from_str::<Durability>(&json).unwrap(),
            Durability::MEMORY
        );
    }

    #[test]
    fn other_texts_are_rejected_with_the_accepted_forms() {
        for text in [
            "",
            "disk",
            "Memory",
            "replica",
            "replica:",
            "replica:0",
            "replica:01",
            "replica:+1",
            "replica:256",
            "fsync+",
            "fsync+memory",
            "fsync+replica:0",
            "replica:1+fsync",
            "fsync+fsync+replica:1",
        ] {
            let error = text.parse::<Durability>().unwrap_err();
            assert!(error.detail.contains("fsync+replica:N"), "{}", error.detail);
        }
    }
}
