//! Daemons as processes: settings, signals, log and pid files, health, and the service manager.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod audit;
mod environment;
mod fixture;
mod full_log_files;
mod health;
mod lmstfy_file;
mod lmstfy_flags;
mod log_files;
mod open_files;
mod pid_file;
mod print_config;
mod reload;
mod rolling_restart;
mod service_manager;
mod signals;
mod spawned;
mod stalled_log_reader;
mod starts_early;
mod threads;
