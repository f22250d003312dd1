//! Limits of namespaces: their quotas, which operators set, and the limits that this process applies before it calls
//! Redis. The scripts that add queues, policies, limits, schedules, relays and API keys apply the others.
//!
//! | limit | where it is applied |
//! |---|---|
//! | `jobs` | `job_room.rs`, `job_count.rs`: before a publish, with a count of all jobs that is a second old at most |
//! | `publishes_per_second` | `publish_units.rs`: units of a rate in Redis |
//! | `waiting_consumers` | `crates/engine/src/consume/waiters/wait_limits.rs` |

mod job_count;
pub(crate) mod job_room;
pub(crate) mod publish_holds;
mod publish_units;
mod table;
mod usage;

pub use table::NamespaceTable;
