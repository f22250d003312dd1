//! The cold tier: payloads of jobs that are due far ahead, in an object store. `docs/cold-tier.md` describes it,
//! `docs/decisions/0088-cold-tier.md` says why it is so. This crate knows nothing of Redis.
//!
//! Objects are `<url>/<id of the deployment>/<partition>/<segment>`.

mod error;
mod http;
mod objects;
mod segment;

pub use error::ColdError;
pub use objects::{ColdObjects, StoredSegment};
pub use segment::{ColdPayload, Segment, SegmentBuilder, read_entries};
