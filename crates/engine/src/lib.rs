//! The part of the API that all front doors share: it publishes jobs in batches, gives jobs to waiting consumers, and
//! checks tokens and rate limits. It uses the store, and contains no HTTP.
//!
//! ```text
//!  front door ─► Pool ─► batcher ──► publisher ──► store      jobs are published and acknowledged
//!  front door ─► Waiters ─► wait queues ─────────► store      jobs are consumed
//!  front door ─► TokenCache, RateLimiter ────────► store      tokens and rate limits
//! ```

mod backlog;
mod batcher;
#[doc(hidden)]
pub mod bench;
mod deployment;
mod durability;
mod engine;
mod error;
mod exposition;
mod lanes;
mod limits;
mod metrics;
mod pool;
mod publisher;
mod revocation;
mod serve_loop;
mod size;
mod storage_failure;
mod tokens;
mod waiters;

pub use durability::{DurabilityTarget, StoredJobs};
pub use engine::{Engine, EngineSettings};
pub use error::EngineError;
pub use exposition::gauges;
pub use lanes::LaneTable;
pub use limits::{LimitedAction, Permit, RateLimiter};
pub use metrics::{Collected, OTHER, SeriesTable};
pub use pool::Pool;
pub use size::PublishSize;
pub use storage_failure::record_store_error;
pub use tokens::memory::TokenKey;
pub use tokens::{TokenCache, TokenForm, generate};
pub use waiters::{Delivered, Delivery, Source, WaitLimits, Waiters};
