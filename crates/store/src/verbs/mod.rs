//! One file a verb; each has a Lua file of the same name.

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

pub use ack::{Acked, Done};
pub(crate) use audit::{IndexDoubt, JobDoubt, Verdict};
pub use cancel::Cancelled;
pub use lease::Leased;
pub use list_queues::{AllQueues, ListedQueue, QueuePage};
pub use load_slot::{LOAD_HINTS_MAX, LoadedSlot};
pub use move_due::{MOVE_TIMERS_MAX, MovedDue};
pub use peek::Peeked;
pub use publish::{PUBLISH_JOBS_MAX, Published};
pub use release::Released;
pub use reserve::{Claim, Reserved};
pub use roster::Roster;
pub use stats::Stats;
pub use sweep::{SWEEP_CHUNKS_MAX, Swept};

/// How many list entries a call may look at before it lets others have Redis: about 1 ms.
const HINTS_PER_CALL: u64 = 256;
