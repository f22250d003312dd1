//! The files in `deploy`: every path, port, flag and setting in them agrees with the programs.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod compose;
mod compose_file;
mod container;
mod dashboards;
mod debian_machine;
mod files;
mod helm;
mod kubernetes_tools;
mod packages;
mod prometheus;
mod settings;
mod tools;
