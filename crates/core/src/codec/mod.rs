//! The record format: a header of fixed size, which scripts read and change, and a payload, which only this crate
//! decodes.
//!
//! To change the format: add a reader for the new version and keep the old one, keep the golden files of all
//! versions, raise [`LAYOUT_VERSION`], and describe both versions in `docs/redis-layout.md`. Daemons of two releases
//! run side by side during a rolling upgrade, so a release must read a version before the next one writes it.

mod bad_record;
mod beginning;
mod extension;
mod header;
mod payload;
mod record;
mod result;

pub use bad_record::{InvalidRecord, LAYOUT_VERSION};
pub use header::{HEADER_BYTES, RecordFlags, RecordHeader};
pub use payload::PAYLOAD_BYTES_MAX;
pub use record::{
    INSTANT_MS, NewRecord, RecordParts, decode_header_only, decode_job, encode_new_job,
};
pub use result::encode_result;
