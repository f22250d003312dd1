//! The verbs: one file for each, or for a family such as `lease_acquire` and `lease_release`. `lua/` has their scripts.

mod ack;
mod audit;
mod cancel;
mod change;
mod explain;
mod fail;
mod job_reference;
mod lane;
mod leaders;
mod lease;
mod list_done;
mod list_jobs;
mod list_position;
mod list_queues;
mod load_slot;
mod move_due;
mod peek;
mod poll;
mod promote;
mod publish;
mod publish_keyed;
mod purge;
mod release;
mod reserve;
mod respawn;
mod result;
mod roster;
mod schedule;
mod schedule_ticks;
mod settle;
mod stats;
mod sweep;
mod touch;
mod waiting;
mod withdraw;

pub use ack::{AckRequest, Acked, NewResult};
pub(crate) use audit::{CheckOutcome, IndexCheck, JobCheck, NamespaceCount};
pub use cancel::CancelOutcome;
pub use change::ChangeOutcome;
pub use explain::{JobSurroundings, JobsBefore};
pub use fail::{AfterFailure, FailRequest};
pub use job_reference::JobReference;
pub use leaders::ServerLeaders;
pub use lease::LeaseOutcome;
pub use list_jobs::{JobSelection, LIST_HINTS_MAX, ListedJob, ListedJobs};
pub use list_position::{InvalidPosition, ListPosition};
pub use list_queues::{ListedQueue, QueuePage, QueuePosition};
pub use load_slot::{LOAD_HINTS_MAX, LoadSlotOutcome};
pub use move_due::{MOVE_TIMERS_MAX, MoveDueOutcome};
pub use peek::PeekedJob;
pub use poll::POLL_QUEUES_MAX;
pub use promote::{PromoteOutcome, Promoted};
pub use publish::{LanePublish, PUBLISH_JOBS_MAX, PublishedJobs};
pub(crate) use publish_keyed::IDEMPOTENCY_MS_MAX;
pub use publish_keyed::{
    IdempotentRequest, JobSnapshot, KeyedCall, KeyedPublish, PublishJob, PublishOutcome,
    PublishReply,
};
pub use reserve::{Claim, LeaseLength, ReserveOptions, ReservedJobs};
pub use respawn::DueTimes;
pub use result::JobEnd;
pub use roster::Roster;
pub use schedule_ticks::{
    PublishedTicks, SCHEDULES_DUE_MAX, ScheduleTick, SchedulesDue, TickOutcome, TickPublish,
};
pub use settle::LeasedJob;
pub use sweep::{SWEEP_CHUNKS_MAX, SweepOutcome};
pub use waiting::WaitingOutcome;
