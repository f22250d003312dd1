//! Whole queues: views, lists, the dead letter, purge, policies, lanes.

mod lanes;
mod limits;
mod list;
mod policy_change;
mod policy_list;
mod purge;
mod respawn;
mod view;

pub use lanes::{QueueLanes, SetLanesBody};
pub use limits::LimitDetails;
pub use list::ListQuery;
pub use policy_change::{GroupPolicyChange, PolicyChange};
pub use policy_list::QueuePolicy;
pub use purge::{PurgeAnswer, PurgeBody, PurgeOutcome, PurgeState};
pub use respawn::{Respawn, RespawnAnswer, RespawnOutcome};
pub use view::QueueView;
