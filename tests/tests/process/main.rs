//! The life of a process: what it is started with, what it is told by signals, what it tells others.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod audit;
mod environment;
mod fixture;
mod full_log_files;
mod half_closed;
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
