//! Everything a daemon needs around its own work: settings, logs, metrics, listeners, shutdown.
//!
//! * [`load`] layers settings: built-in defaults, files, the environment, flags.
//! * [`logs`] and [`metrics`] are set up once per process.
//! * [`traces`] sends spans to a collector of OpenTelemetry, if it is configured.
//! * [`PidFile`] and [`systemd`] let other programs start, signal and supervise the process.
//! * [`OpenFileBudget`] raises the limit of open files, and limits connections to the number that it allows.
//! * [`ByteBudget`] bounds the bytes of requests and answers in flight.
//! * [`Listener`] serves HTTP to untrusted clients with bounded resources, and drains on shutdown. [`BindError`]
//!   explains why an address cannot be bound.
//! * [`admin_router`] has the routes that the admin port of every daemon has.
//! * [`run_to_end()`] finishes work whose caller is dropped.
//! * [`LogLimit`] limits how often a message is logged.
//! * [`health`] has the liveness and readiness checks.
//! * [`stop_on_signals`] turns SIGTERM and SIGINT into cancellation tokens; [`ignore_file_size_signal`] keeps SIGXFSZ
//!   from ending the process.
//!
//! Only `launch` knows of pools; nothing here touches a job.

mod admin;
mod bind_error;
mod budget;
mod config;
mod connection_permits;
mod header_timer;
pub mod health;
mod launch;
mod listen_limits;
mod listener;
mod log_limit;
pub mod logs;
pub mod metrics;
mod open_files;
mod overload_response;
mod own_runtime;
mod pid_file;
mod poll_on_wake;
mod run_to_end;
mod same_origin;
mod serving_threads;
mod shutdown;
mod socket;
pub mod systemd;
pub mod traces;
mod waiting_connections;
mod watched_stream;

pub use admin::{admin_router, router_handler};
pub use bind_error::BindError;
pub use budget::{BudgetExhausted, ByteBudget, ByteShare};
pub use config::{
    Bound, ConfigError, ConfigValues, ForeignSettings, LoadedConfig, Schema, SettingsLayer,
    Sources, load, parse_toml, process_environment, read_file,
};
pub use health::{HealthCheck, Readiness};
pub use launch::{
    CommonFlags, DaemonContext, LaunchFlags, ProcessFlags, Settings, launch, public_reason,
    redis_check, run_once,
};
pub use listen_limits::ListenLimits;
pub use listener::{DrainResult, Listener, Peer};
pub use log_limit::LogLimit;
pub use logs::{LogConfig, LogError, LogFormat, Logs};
pub use open_files::{OPEN_FILES_OF_A_PROCESS, OpenFileBudget, OpenFileLimitError};
pub use own_runtime::new_runtime;
pub use pid_file::{PidFile, PidFileError};
pub use run_to_end::run_to_end;
pub use same_origin::{cross_site_reason, cross_site_refusal};
pub use serving_threads::{OPEN_FILES_OF_A_THREAD, ServingThreads};
pub use shutdown::{StopTokens, ignore_file_size_signal, stop_on_signals};
pub use tidegate_http_pool::{Connections, Resend};
