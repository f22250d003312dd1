//! Whole queues: views, lists, the dead letter, purge, policies.

mod delete;
mod list;
mod policy;
mod policy_change;
mod purge;
mod respawn;
mod view;

pub use delete::{DeleteQueueResult, DeletedQueue};
pub use list::{ListQuery, QueueListPage};
pub use policy::PolicyDetails;
pub use policy_change::{PolicyBody, RetryChange};
pub use purge::{PurgeAnswer, PurgeBody, PurgeOutcome, PurgeState};
pub use respawn::{Respawn, RespawnAnswer, RespawnOutcome};
pub use view::QueueView;
