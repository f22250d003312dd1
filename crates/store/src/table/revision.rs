//! Revisions of entries of tables: of policies and relays.

use std::fmt;
use std::str::FromStr;

/// The revision of a stored policy or relay. Its text is `<number>.<tag>`, or `0` if none is stored.
///
/// Numbers increase with each change of the table. A failover may lose changes, so that the number of
/// a lost change is used again; the tag is random and distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct TableRevision {
    /// Number of the change, from 1; 0 = nothing is stored.
    pub(crate) number: u64,
    /// Tag of the change.
    pub(crate) tag: u32,
}

impl TableRevision {
    /// Whether nothing is stored.
    pub const fn is_none(self) -> bool {
        self.number == 0
    }
}

impl fmt::Display for TableRevision {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            0 => out.write_str("0"),
            number => write!(out, "{number}.{:08x}", self.tag),
        }
    }
}

/// The text is no revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a revision")]
pub struct InvalidRevision;

impl FromStr for TableRevision {
    type Err = InvalidRevision;

    fn from_str(text: &str) -> Result<Self, InvalidRevision> {
        if text == "0" {
            return Ok(Self::default());
        }
        let (number, tag) = text.split_once('.').ok_or(InvalidRevision)?;
        let revision = Self {
            number: number.parse().map_err(|_| InvalidRevision)?,
            tag: u32::from_str_radix(tag, 16).map_err(|_| InvalidRevision)?,
        };
        // A revision has one text: it is compared with the text of the stored entry.
        match revision.number > 0 && revision.to_string() == text {
            true => Ok(revision),
            false => Err(InvalidRevision),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_has_one_text() {
        for text in ["0", "1.00000000", "17.9f3a61c2"] {
            let revision: TableRevision = text.parse().unwrap();
            assert_eq!(revision.to_string(), text);
            assert_eq!(revision.is_none(), text == "0");
        }
        for text in [
            "",
            "1",
            "17.9F3A61C2",
            "017.9f3a61c2",
            "17.9f3a61c",
            "0.00000000",
            "+1.00000001",
            "1.",
        ] {
            assert_eq!(
                text.parse::<TableRevision>(),
                Err(InvalidRevision),
                "{text}"
            );
        }
    }
}
