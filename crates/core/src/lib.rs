//! Names, ids, jobs, the record format, Redis keys, placement and job states of Tidegate. This crate does no I/O.
//!
//! A job belongs to a queue of a namespace. It is stored as a record, in the bucket of its lane of the queue. It is
//! delayed, ready, leased or dead: [`lifecycle`] has the rules. The glossary in `docs/ARCHITECTURE.md` defines all terms.
//!
//! Durations carry their unit in the name (`delay_ms`); instants end in `_at_ms` and count
//! milliseconds since 1970 on the clock of Redis.

pub mod codec;
pub mod hash_slot;
mod job;
mod job_id;
pub mod keys;
mod lane;
pub mod layout;
pub mod lifecycle;
mod name;
pub mod placement;
mod state;
mod timer_slot;

pub use job::{Attributes, DURATION_MS_MAX, InvalidJob, Job, NewJob};
pub use job_id::{InvalidJobId, JobId};
pub use lane::{LANES_SETTLE_INTERVAL, Lane, LaneCounts, LaneRow};
pub use name::{InvalidName, NAME_BYTES_MAX, Namespace, QueueKey, QueueName};
pub use state::JobState;
pub use timer_slot::{InvalidSlotWidth, SlotWidth};
