//! The HTTP daemon: publish, consume, acknowledge.
//!
//! ```text
//!  listener ─► front ─► lmstfy/routes ─► lmstfy/VERB ─► store
//!              (every     (one screen)    (one file      ▲
//!               request)                   a verb)       │
//!                                             └─► waiters┘   consumers that wait
//!  listener ─► admin/router
//! ```
//!
//! A front door parses, calls one verb of the store and renders. It keeps nothing: any number of these
//! processes may run behind a balancer.

mod access_log;
mod admin;
mod app;
mod arguments;
mod backlog;
mod batcher;
#[doc(hidden)]
pub mod bench;
mod body;
mod config;
mod context;
mod daemon;
mod durable;
mod front;
mod lanes;
mod last_known;
mod limits;
mod lmstfy;
mod metrics;
mod open_files;
mod pool;
mod revocation;
mod size;
mod token_memory;
mod tokens;
mod unread;
mod waiters;

pub use arguments::translate;
pub use config::{
    Config, DEFAULT_POOL, DEFAULTS, DurabilityConfig, JobDefaults, MetricsConfig, Password,
    RequestLimits, WaiterConfig,
};
pub use daemon::{StartError, run};
#[doc(hidden)]
pub use lmstfy::fuzz;
