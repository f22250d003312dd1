//! The version of the layout, and errors of decoding a record.

/// The version of the stored layout: records, keys and placement together.
pub const LAYOUT_VERSION: u8 = 2;

/// Why a record cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRecord {
    /// The record has fewer bytes than a header.
    #[error("record is shorter than its header")]
    TooShort,
    /// The record has a layout version that this build does not support.
    #[error("record has layout version {0}, expected {LAYOUT_VERSION}")]
    UnknownVersion(u8),
    /// The state byte is not the number of a state.
    #[error("record has unknown state {0}")]
    UnknownState(u8),
    /// The payload, its flags or its nonce have changed since the record was written.
    #[error("payload is damaged: its seal does not match")]
    Damaged,
    /// The extension is truncated, or has a field that this build does not support.
    #[error("extension cannot be decoded")]
    BadExtension,
    /// The payload is invalid, or larger than [`PAYLOAD_BYTES_MAX`](super::PAYLOAD_BYTES_MAX).
    #[error("payload cannot be decoded")]
    BadPayload,
}
