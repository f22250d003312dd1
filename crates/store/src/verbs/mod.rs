//! The verbs: one file for each, or for a family such as `lease_acquire` and `lease_release`. `lua/` has their scripts.

mod ack;
mod audit;
mod cancel;
mod lane;
mod lease;
mod list_queues;
mod load_slot;
mod move_due;
mod peek;
mod publish;
mod purge;
mod release;
mod reserve;
mod respawn;
mod roster;
mod stats;
mod sweep;

pub use ack::{AckOutcome, AckRequest};
pub(crate) use audit::{CheckOutcome, IndexCheck, JobCheck};
pub use cancel::CancelOutcome;
pub use lease::LeaseOutcome;
pub use list_queues::{AllQueues, ListedQueue, QueuePage};
pub use load_slot::{LOAD_HINTS_MAX, LoadSlotOutcome};
pub use move_due::{MOVE_TIMERS_MAX, MoveDueOutcome};
pub use peek::PeekedJob;
pub use publish::{PUBLISH_JOBS_MAX, PublishedJobs};
pub use release::ReleaseOutcome;
pub use reserve::{Claim, ReservedJobs};
pub use roster::Roster;
pub use stats::Stats;
pub use sweep::{SWEEP_CHUNKS_MAX, SweepOutcome};
