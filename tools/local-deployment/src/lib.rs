//! A deployment on this machine: a private Redis, the API, pumps. For development.
//!
//! * [`start`] starts Redis and the daemons, and waits until they serve.
//! * [`DevSession`] has the running processes, watches them, and stops them in order.
//! * [`StopRequests`] turns Ctrl-C and SIGTERM into a flag that waiting loops look at.
//! * [`state_folder`] ensures that one deployment at a time uses a folder.
//! * [`credentials`] returns the credentials of the demo namespace.
//!
//! All functions block. If this process is killed, all processes that it has started end within some seconds. Errors
//! are messages for the user of a command.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "all functions block, and print what they start"
)]

pub mod credentials;
mod ending;
mod http;
pub mod ports;
mod process;
mod session;
mod signals;
pub mod start;
pub mod state_folder;

pub use ending::CommandError;
pub use process::DevProcess;
pub use session::DevSession;
pub use signals::StopRequests;
pub use tidegate_local_redis::{LocalRedisError, ServerBinary, locate};
