//! Finds, obtains and runs a private Redis for development and tests.
//!
//! * [`locate()`] finds a `redis-server` or `valkey-server` on this machine.
//! * [`obtain()`] does the same and, if there is none, downloads one into a cache folder. It installs nothing, touches
//!   no system service, and needs no permission beyond writing to that folder.
//! * [`RedisServer`] runs a server on 127.0.0.1 with a private data folder, and can stop, kill, pause and restart it.
//! * [`RedisCluster`] runs a Redis Cluster of several servers, with replicas.
//!
//! All functions block. Nothing is printed: progress goes to a callback, and [`LocalRedisError`] has the reasons of
//! failures.
//!
//! # Environment
//! * `TG_REDIS_SERVER` – path of the server program to use, instead of a search.
//! * `TG_KEEP=1` – keep temporary data folders when their server is dropped.
//!
//! # When the parent dies
//! Dropping a [`RedisServer`] ends its process. A killed parent drops nothing, so a small shell process waits on a pipe
//! from the parent, and ends the server when that pipe closes. A temporary data folder may remain.

#![expect(clippy::disallowed_methods, reason = "all functions block")]

mod blocking_client;
mod cluster;
mod error;
mod folder;
mod locate;
mod obtain;
mod options;
mod probe;
mod process;
mod server;
mod version;

pub use blocking_client::BlockingClient;
pub use cluster::RedisCluster;
pub use error::LocalRedisError;
pub use folder::KEEP_VARIABLE;
pub use locate::{OLDEST_MAJOR, SERVER_VARIABLE, ServerBinary, locate};
pub use obtain::{obtain, obtain_old, obtain_valkey, workspace_cache};
pub use options::LocalRedisOptions;
pub use server::RedisServer;
pub use tidegate_local_program::{FailedSource, free_port, process_title};
pub use version::{ServerKind, Version};
