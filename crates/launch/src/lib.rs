//! From the command line to a daemon at work: what both daemons do in the same way, and what they know of
//! pools without touching a job.
//!
//! ```text
//!  flags ─► settings ─► logs, pid file ─► runtime, signals ─► the daemon's own work
//!             ▲                             │
//!             └───── read again ◄── SIGHUP ─┘
//! ```
//!
//! * [`CommonFlags`] are the flags of both; [`Settings`] is what a daemon says about its own.
//! * [`schema()`] is what each key accepts, those of pools included.
//! * [`launch`] runs a daemon from `main` to its exit status.
//! * [`at_once`] runs a command that does one thing with the settings of a daemon.
//! * [`Process`] is what the daemon is given: when to stop, and how to be reached by signals.
//! * `lmstfy` reads the configuration files of lmstfy.

mod flags;
mod lmstfy;
mod process;
mod readiness;
mod recipe;
mod schema;
mod start;

pub use flags::CommonFlags;
pub use process::Process;
pub use readiness::{reason, redis_check};
pub use recipe::Settings;
pub use schema::schema;
pub use start::{at_once, launch};
