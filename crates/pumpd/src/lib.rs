//! The timer daemon: makes jobs consumable when they are due.
//!
//! ```text
//!            alarms ────────┐            ┌──► run (load_slot, move_due, sweep) ─┐
//!                           ▼            │                                      │
//!  keeper ──gained/lost──► conductor ──wheel──► bucket is up                    │
//!    ▲                      ▲                                                   │
//!    └── roster, leases     └────────────── next moment of the bucket ◄─────────┘
//! ```
//!
//! * `keeper` shares the buckets of each server out among the live instances and holds a lease on each of ours.
//! * `conductor` keeps the next moment of every bucket in a timing wheel and runs the buckets whose
//!   moment has come.
//! * `bucket` does what is to be done in one bucket, once.
//! * `audit` is no part of the daemon: a command for operators that looks through the buckets.
//!
//! A lease keeps two pumps from doing the same work. It is not the safety: that is in the scripts, which
//! move a job only if its record agrees.

mod audit;
mod bucket;
mod conductor;
mod config;
mod daemon;
mod keeper;
mod leases;
mod measures;
mod membership;
mod open_files;
mod pump;
mod roster;
mod run_queue;
mod server_keeper;
mod server_watch;
mod servers;
mod share;

pub use audit::AuditFlags;
pub use config::{Config, DEFAULTS, PumpConfig};
pub use daemon::{StartError, run};
