//! The policies of queues: setting one, and reading what has changed since the last time.

mod changes;
mod policy_set;
mod stored;
mod table;

pub use changes::PolicyChanges;
pub use policy_set::PolicySetOutcome;
pub use stored::StoredPolicy;
pub use table::Policies;
