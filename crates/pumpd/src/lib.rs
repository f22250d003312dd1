//! The timer daemon: makes jobs ready when they are due.
//!
//! ```text
//!            alarms ────────┐            ┌──► run (load_slot, move_due, sweep) ─┐
//!                           ▼            │                                      │
//!  keeper ──gained/lost──► conductor ──wheel──► bucket is due                   │
//!    ▲                      ▲                                                   │
//!    └── roster, leases     └────────────── next due time of the bucket ◄───────┘
//! ```
//!
//! * `keeper` assigns the buckets of each server to the live instances, and holds the locks of this instance's buckets.
//! * `conductor` keeps the next due time of every bucket in a timing wheel, and runs the buckets that are due.
//! * `bucket` makes the due calls for one bucket, once.
//! * `sizes` reads the sizes of queues in the buckets of this instance for a scrape, `size_metrics` shows them.
//! * `audit` is not part of the daemon: it is a command for operators that checks the buckets.
//!
//! A lock only prevents two pumps from doing the same work. Correctness does not depend on it: scripts move a job only
//! if its record agrees.

mod audit;
mod bucket;
mod bucket_states;
mod clock_watch;
mod config;
mod daemon;
mod instance;
mod kept_dead;
mod lease_keeper;
mod leases;
mod open_files;
mod pump;
mod pump_metrics;
mod readiness;
mod roster;
mod run_queue;
mod scheduler;
mod schedules;
mod server_lease_keeper;
mod server_queues;
mod share;
mod size_metrics;
mod sizes;
mod table_reads;

pub use audit::AuditFlags;
pub use config::{DEFAULTS, PumpConfig, PumpdConfig};
pub use daemon::{PumpdStartError, run};
