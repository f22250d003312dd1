//! The form of job ids on this wire: 26 characters, or 27 with a version digit in front.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use tidegate_core::limits::JOB_ID_BYTES;
use tidegate_core::{InvalidJobId, JobId};

/// The version digit of jobs that were published with attributes enabled.
const VERSION: char = '1';

/// Length of the longer form.
pub(super) const WIRE_JOB_ID_BYTES_MAX: usize = JOB_ID_BYTES + 1;

/// A job id in its form on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WireJobId {
    pub(crate) id: JobId,
    /// Whether it has the version digit.
    pub(crate) versioned: bool,
}

impl fmt::Display for WireJobId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.versioned {
            write!(out, "{VERSION}")?;
        }
        self.id.fmt(out)
    }
}

impl FromStr for WireJobId {
    type Err = InvalidJobId;

    /// Accepts only the texts that [`fmt::Display`] writes.
    fn from_str(text: &str) -> Result<Self, InvalidJobId> {
        // The length distinguishes the two forms.
        let stripped = text.strip_prefix(VERSION).filter(|rest| rest.len() == 26);
        Ok(Self {
            id: stripped.unwrap_or(text).try_into()?,
            versioned: stripped.is_some(),
        })
    }
}

impl WireJobId {
    /// Writes the text into a buffer, without an allocation.
    pub(super) fn encode(self, buffer: &mut [u8; WIRE_JOB_ID_BYTES_MAX]) -> &str {
        if self.versioned {
            let [version, id @ ..] = &mut *buffer;
            *version = VERSION as u8;
            self.id.encode(id);
            return str::from_utf8(buffer).expect("digits and letters");
        }
        let [_, id @ ..] = buffer;
        self.id.encode(id)
    }
}

impl Serialize for WireJobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // `collect_str` would write piece by piece.
        serializer.serialize_str(self.encode(&mut [0; WIRE_JOB_ID_BYTES_MAX]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_forms_are_read_as_they_are_written() {
        let id = JobId::new(1_763_700_000_123, 3, 77, 0xA1B2);
        for versioned in [false, true] {
            let shown = WireJobId { id, versioned };
            assert_eq!(shown.to_string().len(), 26 + usize::from(versioned));
            assert_eq!(shown.to_string().parse(), Ok(shown));
        }
    }

    #[test]
    fn other_texts_are_rejected() {
        let id = JobId::new(1_763_700_000_123, 3, 77, 0xA1B2).to_string();
        let lower = format!("1{}", id.to_lowercase());
        for bad in ["", "1", "x", &format!("2{id}"), &format!("11{id}"), &lower] {
            assert!(bad.parse::<WireJobId>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn an_id_is_read_only_as_it_is_written(
            at_ms in 0_u64..1 << 48, bucket: u16, number in 0_u64..1 << 40, nonce: u16, versioned: bool,
            place in 0_usize..26, letter in any::<char>(),
        ) {
            let id = JobId::new(at_ms, bucket, number, nonce);
            let text = WireJobId { id, versioned }.to_string();
            prop_assert_eq!(text.parse(), Ok(WireJobId { id, versioned }));
            let changed: String = text
                .char_indices()
                .map(|(at, old)| if at == place { letter } else { old })
                .collect();
            if let Ok(other) = changed.parse::<WireJobId>() {
                prop_assert_eq!(other.to_string(), changed);
            }
        }

        #[test]
        fn any_accepted_text_is_written_unchanged(text in "\\PC{0,30}|1?[0-9A-Z]{26}") {
            if let Ok(id) = text.parse::<WireJobId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
