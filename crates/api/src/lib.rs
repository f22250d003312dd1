//! The HTTP daemon: its clients publish, reserve and acknowledge jobs.
//!
//! ```text
//!  public port ──► front ──────────┬► v1/routes ────────► v1/VERB ──────────┐
//!                                  └► lmstfy/dispatch ──► lmstfy/VERB ──────┤
//!  youzan port ──► youzan/listener ─► youzan/routes ────► youzan/VERB ──────┼─► engine ─► store
//!  admin port ───► admin/native ───┬► v1/routes ────────► v1/VERB ──────────┤
//!                                  └► admin/router ─────► admin, dashboard ─┘
//! ```
//!
//! A handler parses the request, calls the engine, and renders the answer. All durable state is in Redis, so any number
//! of these processes may run behind a load balancer.

mod accounts;
mod admin;
mod app;
mod arguments;
mod cold_status;
mod config;
mod daemon;
mod dashboard;
mod docs;
mod duration_text;
mod front;
mod http;
mod lmstfy;
mod metrics;
mod open_files;
mod relay_status;
mod spans;
mod v1;
mod youzan;

pub use arguments::translate;
pub use config::{
    AccountRole, ApiConfig, DEFAULT_POOL, DEFAULTS, DrainedServerConfig, DurabilityConfig,
    JobDefaults, Password, RequestLimits, WaiterConfig, YouzanConfig,
};
pub use daemon::{ApiStartError, run};
#[doc(hidden)]
pub use lmstfy::api_label;
#[cfg(any(test, feature = "fuzz"))]
pub use lmstfy::fuzz;
