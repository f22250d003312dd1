//! The bytes of a record: a fixed header that scripts read and change, then a payload that only Rust
//! looks into.
//!
//! To change the format: add the new version beside the old reader, keep the golden files of every
//! version, raise [`LAYOUT_VERSION`], describe both in `docs/redis-layout.md`. Daemons of two versions
//! overlap while an upgrade rolls out, so a release that writes a version comes after one that reads it.

mod header;
mod payload;
mod record;

pub use header::{Flags, HEADER_BYTES, Header};
pub use payload::PAYLOAD_BYTES_MAX;
pub use record::{NewRecord, decode_job, decode_parts, encode_new_job};

/// The version of the stored layout: records, keys and placement together.
pub const LAYOUT_VERSION: u8 = 1;

/// Why bytes are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// Fewer bytes than a header has.
    #[error("record is shorter than its header")]
    TooShort,
    /// Written by a layout version that this build does not know.
    #[error("record has layout version {0}, expected {LAYOUT_VERSION}")]
    UnknownVersion(u8),
    /// The state byte is none of the states.
    #[error("record has unknown state {0}")]
    UnknownState(u8),
    /// The payload, or what its header says of it, is not what was written.
    #[error("payload is damaged: its seal does not fit")]
    Damaged,
    /// The payload is no payload, or larger than [`PAYLOAD_BYTES_MAX`].
    #[error("payload cannot be decoded")]
    BadPayload,
}
