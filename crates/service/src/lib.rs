//! What every daemon needs around its real work: settings, logs, metrics, listeners, an end.
//!
//! * [`load`] layers settings: built-in defaults, files, the environment, flags.
//! * [`logs`] and [`metrics`] are set up once per process.
//! * [`PidFile`] and [`systemd`] are for those who start and signal it.
//! * [`FilesNeeded`] makes room for connections, and limits them to it.
//! * [`ByteBudget`] bounds what clients have sent and is not answered yet.
//! * [`Listener`] serves HTTP with the bounds that strangers call for, and drains. [`BindError`] says why it cannot.
//! * [`admin_router`] is the part of the admin port that is the same everywhere.
//! * [`health`] answers whether it serves, and whether it is ready.
//! * [`stop_on_signals`] turns SIGTERM and SIGINT into tokens that are passed around; [`ignore_file_size_signal`] keeps
//!   SIGXFSZ from ending the process.
//!
//! Nothing here knows jobs or Redis.

mod admin;
mod aside;
mod bind_error;
mod budget;
mod config;
mod hang_up;
mod head_timer;
mod header_end;
pub mod health;
mod listen_limits;
mod listener;
pub mod logs;
pub mod metrics;
mod open_files;
mod pid_file;
mod places;
mod refusal;
mod same_origin;
mod shutdown;
mod socket;
pub mod systemd;
mod waiting;
mod watched_stream;

pub use admin::{admin_router, routed};
pub use bind_error::BindError;
pub use budget::{BudgetExhausted, ByteBudget, ByteShare};
pub use config::{
    Bound, ConfigError, Foreign, Layer, Loaded, Schema, Sources, Values, load, parse_toml,
    process_environment, read_file,
};
pub use hang_up::HangUp;
pub use health::{Check, Readiness};
pub use listen_limits::ListenLimits;
pub use listener::{Drained, Listener, Peer};
pub use logs::{LogConfig, LogError, LogFormat, Logs};
pub use open_files::{FilesNeeded, OPEN_FILES_OF_A_PROCESS, TooFewFiles};
pub use pid_file::{PidFile, PidFileError};
pub use shutdown::{Stop, ignore_file_size_signal, stop_on_signals};
