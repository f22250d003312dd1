//! What every daemon needs around its real work: settings, logs, metrics, listeners, an end.
//!
//! * [`load`] layers settings: built-in defaults, a file, the environment, flags.
//! * [`logs`] and [`metrics`] are set up once per process.
//! * [`Listener`] serves HTTP with the bounds that strangers call for, and drains.
//! * [`admin_router`] is the part of the admin port that is the same everywhere.
//! * [`stop_on_signals`] turns SIGTERM and SIGINT into a token that is passed around.
//!
//! Nothing here knows jobs or Redis.

mod admin;
mod config;
mod listener;
pub mod logs;
pub mod metrics;
mod shutdown;
mod timeouts;

pub use admin::admin_router;
pub use config::{ConfigError, Layer, Sources, ignored_variables, load, process_environment};
pub use listener::{Drained, ListenLimits, Listener};
pub use logs::{LogConfig, LogFormat};
pub use shutdown::stop_on_signals;
