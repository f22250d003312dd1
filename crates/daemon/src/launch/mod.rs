//! Startup, signals and settings of the daemons, and their knowledge of pools, without touching a job.
//!
//! ```text
//!  flags ─► settings ─► logs, pid file ─► runtime, signals ─► the daemon's own work
//!             ▲                             │
//!             └───── read again ◄── SIGHUP ─┘
//! ```
//!
//! * [`ProcessFlags`] are the flags of every daemon, [`CommonFlags`] the flags of a daemon with pools. A daemon
//!   implements [`Settings`] for its own settings.
//! * [`launch`] runs a daemon and returns its exit status.
//! * [`run_once`] runs a one-off command with the settings of a daemon.
//! * [`DaemonContext`] gives the daemon its stop tokens, and handles its signals.
//! * `lmstfy` reads the configuration files of lmstfy.

mod flags;
mod lmstfy;
mod process;
mod readiness;
mod settings;
mod settings_loader;
mod start;

pub use flags::{CommonFlags, LaunchFlags, ProcessFlags};
pub use process::DaemonContext;
pub use readiness::{public_reason, redis_check};
pub use settings::Settings;
pub use start::{launch, run_once};
