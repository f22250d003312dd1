//! The words, bytes, key names and states of Tidegate. No I/O happens here.
//!
//! | word | meaning |
//! |---|---|
//! | *namespace* | a tenant; owns queues |
//! | *queue* | a named line of jobs inside a namespace |
//! | *job* | bytes and attributes that become consumable at a time |
//! | *bucket* | one of the shards of a Redis deployment: the unit of hash slot, lock and pumping |
//! | *lane* | the part of a queue that is in one bucket; most queues have one |
//! | *record* | what is stored of a job: a header and a payload |
//! | *slot* | a span of far timers, 65.536 s wide unless the deployment has another width |
//! | *delayed, ready, leased, dead* | the states of a job |
//! | *tries* | deliveries left |
//! | *attempt* | deliveries made; it identifies a lease |
//! | *ttr* | time to run: the length of a lease |
//! | *hint* | a job number in a list or a timer; it counts only if the job's record agrees |
//! | *doorbell* | the message "this queue went from empty to not empty" |
//! | *alarm* | the message "this bucket's earliest due time is now earlier" |
//! | *lateness* | the moment a job became consumable minus its due time |
//!
//! Durations carry their unit in the name (`delay_ms`); instants end in `_at_ms` and count
//! milliseconds since 1970 on the clock of Redis.

pub mod codec;
pub mod hash_slot;
mod job;
mod job_id;
pub mod keys;
mod lane;
pub mod lifecycle;
mod name;
pub mod placement;
mod state;
mod timer_slot;

pub use job::{Attributes, DURATION_MS_MAX, InvalidJob, Job, NewJob};
pub use job_id::{InvalidJobId, JobId};
pub use lane::{LANES_SETTLE_INTERVAL, Lane, LaneCounts, LaneRow};
pub use name::{InvalidName, NAME_BYTES_MAX, Namespace, QueueKey, QueueName};
pub use state::State;
pub use timer_slot::{InvalidSlotWidth, SlotWidth};
