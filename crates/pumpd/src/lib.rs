//! The timer daemon: makes jobs ready when they are due.
//!
//! ```text
//!                        alarms ───┐                      ┌──► load_slot, move_due, sweep ──┐
//!                                  ▼                      │                                 │
//!  lease_keeper ──gained, lost──► scheduler ──is due──► bucket                              │
//!    ▲                             ▲                                                        │
//!    └── rosters, locks            └────────────── next due times of the bucket ◄───────────┘
//! ```
//!
//! * `lease_keeper` holds the locks of the buckets that are the `share` of this instance, server by server.
//! * `scheduler` keeps the next due time of each bucket in a timing wheel, and starts a run for a bucket that is due.
//! * `bucket` makes the due calls of one run; `schedules` publishes the jobs of due ticks.
//! * `kept_dead` deletes old dead jobs, without a lock.
//! * `cold` moves payloads of far jobs to an object store, and back in time.
//! * `sizes` reads the sizes of queues in the buckets of this instance for a scrape, `size_metrics` shows them.
//! * `audit` is not part of the daemon: it is a command for operators that checks the buckets.
//!
//! A lock only prevents two pumps from doing the same work. Correctness does not depend on it: scripts move a job only
//! if its record agrees.

mod audit;
mod bucket;
mod bucket_states;
mod clock_watch;
mod cold;
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
