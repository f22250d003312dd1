//! A private Redis for development and tests: found, obtained, run.
//!
//! * [`locate`] finds a `redis-server` or `valkey-server` on this machine.
//! * [`obtain`] does the same and, where there is none, fetches one into a cache folder. Nothing is installed, no system
//!   service is touched and no right beyond writing to that folder is needed.
//! * [`RedisServer`] runs one on 127.0.0.1 with its own data folder, and can stop, kill, pause and restart it.
//! * [`RedisCluster`] makes a Redis Cluster of several, each with a replica.
//!
//! Everything here blocks; call it from a thread that may wait. Nothing is printed: progress goes to a callback, reasons
//! are in [`Error`].
//!
//! # Environment
//! * `TIDEGATE_REDIS_SERVER` – path of the server program to use instead of any other.
//! * `TIDEGATE_KEEP=1` – temporary data folders stay when their server is dropped.
//!
//! # When the parent dies
//! Dropping a [`RedisServer`] ends its process. A parent that is killed cannot drop anything, so a small shell process
//! waits on a pipe from the parent and ends the server when that pipe closes. Only a temporary data folder may stay.

mod cluster;
mod command;
mod conversation;
mod error;
mod file_lock;
mod folder;
mod locate;
mod obtain;
mod options;
mod port;
mod probe;
mod process;
mod server;
mod title;
mod version;
mod watchdog;

pub use cluster::RedisCluster;
pub use error::{Error, Tried};
pub use locate::{OLDEST_MAJOR, SERVER_VARIABLE, ServerBinary, locate};
pub use obtain::{obtain, obtain_old, obtain_valkey, workspace_cache};
pub use options::Options;
pub use port::free_port;
pub use server::{KEEP_VARIABLE, RedisServer};
pub use title::process_title;
pub use version::{Flavour, Version};
