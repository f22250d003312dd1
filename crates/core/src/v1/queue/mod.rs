//! Whole queues: views, lists, the dead letter, purge, policies.

mod delete;
mod list;
mod policy_change;
mod purge;
mod respawn;
mod view;

pub use delete::{DeleteQueueResult, DeletedQueue};
pub use list::{ListQuery, QueueListPage};
pub use policy_change::PolicyChange;
pub use purge::{PurgeAnswer, PurgeBody, PurgeOutcome, PurgeState};
pub use respawn::{Respawn, RespawnAnswer, RespawnOutcome};
pub use view::QueueView;
