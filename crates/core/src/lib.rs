//! Names, ids, jobs, the record format, Redis keys, placement and job states of Tidegate, and the requests and answers
//! of the native API ([`v1`]). This crate does no I/O.
//!
//! A job belongs to a queue of a namespace. It is stored as a record, in the bucket of its lane of the queue. It is
//! delayed, ready, leased, dead or done: [`lifecycle`] has the rules. `docs/glossary.md` defines all terms.
//!
//! Durations carry their unit in the name (`delay_ms`); instants have names as `due_at_ms` and count
//! milliseconds since 1970 on the clock of Redis.

mod api_key;
mod choices;
pub mod codec;
mod cold;
mod durability;
pub mod duration;
mod extension;
mod group_hash;
pub mod hash_slot;
mod job;
mod job_id;
mod jobs_by_state;
mod jump_hash;
mod key_hash;
mod key_placement;
pub mod keys;
mod lane;
pub mod layout;
pub mod lifecycle;
pub mod limits;
mod name;
mod namespace_limits;
#[cfg(feature = "openapi")]
pub mod openapi;
pub mod placement;
mod policy;
pub mod schedule;
mod state;
mod timer_slot;
pub mod v1;
pub mod visible_text;

pub use api_key::{API_KEY_ID_BYTES, ApiKeyId, InvalidApiKeyId, NamespaceGrant, Scope, Scopes};
pub use choices::{IfExists, IfRunning};
pub use cold::{
    COLD_ENTRY_BYTES_MAX, COLD_REFERENCE_BYTES, ColdReference, InvalidSegmentName, PARTITION_MS,
    Partition, SegmentName,
};
pub use durability::Durability;
pub use extension::{KEY_HASH_BYTES, RecordExtension, RetryDelays, RetrySteps};
pub use group_hash::GroupHash;
pub use job::{
    Attributes, CONTENT_TYPE_ATTRIBUTE, Failures, GROUP_ATTRIBUTE, InvalidJob, Job, KEY_ATTRIBUTE,
    NativeOptions, NewJob, TRACE_PARENT_ATTRIBUTE,
};
pub use job_id::{InvalidJobId, JobId};
pub use jobs_by_state::JobsByState;
pub use jump_hash::LaneHash;
pub use key_hash::{KeyHash, SCHEDULE_KEY_PREFIX};
pub use key_placement::{FORMER_NUMBERS_MAX, InvalidPlacement, KeyPlacement, LaneNumbers};
pub use lane::{LANES_SETTLE_INTERVAL, Lane, LaneCounts, LaneRow, share_of};
pub use name::{InvalidName, Namespace, QueueKey, QueueName};
pub use namespace_limits::{InvalidNamespaceLimit, NamespaceLimits};
pub use policy::{GroupPolicy, InvalidPolicy, Policy, Rate, RetryPolicy, UnreadablePolicy};
pub use state::JobState;
pub use timer_slot::{
    FAR_LEVELS, FarSlot, InvalidFarSlot, InvalidSlotWidth, SLOTS_PER_SLOT, SlotWidth,
};
