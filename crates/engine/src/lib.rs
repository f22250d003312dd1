//! The part of the API that all front doors share: it publishes jobs in batches, gives jobs to waiting consumers, and
//! checks tokens, API keys and rate limits. It uses the store, and contains no HTTP.
//!
//! ```text
//!  front door ─► Pool ─► batcher ──► publisher ──► store      jobs are published and acknowledged
//!  front door ─► Waiters ─► wait queues ─────────► store      jobs are consumed
//!  front door ─► TokenCache, RateLimiter ────────► store      tokens and rate limits
//!  front door ─► Engine::authenticate ─► ApiKeyCache, TokenCache ─► store      API keys
//! ```

mod access;
mod api_keys;
mod backlog;
mod batcher;
#[doc(hidden)]
pub mod bench;
mod change_attempts;
mod credential;
mod durability;
mod engine;
mod error;
mod exposition;
mod grant;
mod job_ends;
mod key_changes;
mod lanes;
mod limits;
mod metrics;
mod policies;
mod pool;
mod publish;
mod publisher;
mod random_text;
mod revocation;
mod serve_loop;
mod size;
mod storage_failure;
mod table_reader;
mod tokens;
mod waiters;
mod workers;

pub use access::Principal;
pub use api_keys::{ApiKeyCache, generate_key_id};
pub use change_attempts::ChangeAttempts;
pub use credential::Credential;
pub use durability::DurabilityTarget;
pub use engine::{DEFAULT_POOL, Engine, EngineSettings};
pub use error::{AccessError, EngineError};
pub use exposition::gauges;
pub use grant::{Grant, GrantError};
pub use key_changes::{CreateKeyError, CreatedApiKey, DESCRIPTION_BYTES_MAX, NewApiKey};
pub use lanes::LaneTable;
pub use limits::{LimitedAction, Permit, RateLimiter};
pub use metrics::{Collected, JobTraffic, OTHER, SeriesTable};
pub use policies::{PolicyChangeError, PolicyTable};
pub use pool::Pool;
pub use pool::act::{ActCursor, ActPage};
pub use pool::job_act::JobAct;
pub use pool::job_criteria::{ErrorDigest, JobCriteria};
pub use pool::job_list::{JobCursor, JobPage};
pub use pool::overview::{PoolOverview, PoolSizes, QueueFigures};
pub use pool::queue_list::{DeleteQueueOutcome, QueueCursor, QueueListing};
pub use publish::{Publish, Published, StoredJob};
pub use size::PublishSize;
pub use storage_failure::record_store_error;
pub use tokens::memory::TokenKey;
pub use tokens::{TokenCache, TokenForm, generate, split_token};
pub use waiters::{Delivered, Delivery, Source, WaitLimits, WaitPermit, Waiters};
pub use workers::{
    ActiveWorker, JobHolder, KnownWorkers, LEASES_STORED_MAX, ListedLease, ListedWorker, WorkerPage,
};
