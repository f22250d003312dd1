//! Programs for development and tests: obtained without being installed, and run privately.
//!
//! * [`ProgramCache`] keeps downloaded programs in a folder; several processes may fill it at once.
//! * [`DebianPackages`] downloads and unpacks packages of Debian, which needs no root.
//! * [`ProgramProcess`] runs a server, ends it, and does so too if this process is killed.
//! * [`command`] runs a program to its end, with a time limit.
//! * [`free_port`], [`try_lock_for`], [`process_title`], [`log_tail()`]: further functions for servers on one machine.
//!
//! All functions block. Nothing is printed.

#![expect(clippy::disallowed_methods, reason = "all functions block")]

mod cache;
pub mod command;
mod debian;
mod file_lock;
mod log_tail;
mod port;
mod process;
mod title;
mod watchdog;

pub use cache::{
    DownloadSource, FailedSource, ObtainError, ProgramCache, ProgramEntry, failure_lines,
    workspace_cache,
};
pub use debian::DebianPackages;
pub use file_lock::try_lock_for;
pub use log_tail::log_tail;
pub use port::free_port;
pub use process::ProgramProcess;
pub use title::process_title;
