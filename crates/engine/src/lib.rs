//! The part of the API that all front doors share: it publishes jobs in batches, gives jobs to waiting consumers, and
//! checks tokens, API keys and rate limits. It uses the store, and contains no HTTP.
//!
//! ```text
//!  front door ─► publish/: Pool::publish ─► batch ─► lane ─► store      jobs are published
//!  front door ─► consume/: Waiters ─► wait queues ─────────► store      jobs are consumed; their runs end
//!  front door ─► queue/: policies, lists, acts ────────────► store      jobs that no consumer holds
//!  front door ─► namespaces/: limits of namespaces ────► store      how much one tenant may have
//!  front door ─► access/: tokens, API keys, rate limits ───► store      who may do what
//! ```

mod access;
#[doc(hidden)]
pub mod bench;
mod consume;
mod engine;
mod error;
mod metrics;
mod namespaces;
mod pool;
mod publish;
mod queue;
mod units;

pub use access::api_keys::{ApiKeyCache, generate_key_id};
pub use access::credential::Credential;
pub use access::grant::{Grant, GrantError};
pub use access::key_changes::{CreateKeyError, CreatedApiKey, DESCRIPTION_BYTES_MAX, NewApiKey};
pub use access::limits::{LimitedAction, Permit, RateLimiter};
pub use access::principal::Principal;
pub use access::tokens::token_key::TokenKey;
pub use access::tokens::{TokenCache, TokenForm, generate, split_token};
pub use access::{NamespaceShare, NamespaceShares};
pub use consume::settle::Settlement;
pub use consume::waiters::{Delivered, Delivery, Source, WaitLimits, WaitPermit, Waiters};
pub use consume::workers::{
    ActiveWorker, JobHolder, KnownWorkers, LEASES_STORED_MAX, ListedLease, ListedWorker, WorkerPage,
};
pub use engine::{DEFAULT_POOL, Engine, EngineSettings};
pub use error::{AccessError, EngineError};
pub use metrics::scraped::scraped;
pub use metrics::storage_failure::record_store_error;
pub use metrics::{JobTraffic, SeriesTable};
pub use namespaces::NamespaceTable;
pub use pool::Pool;
pub use publish::durability::DurabilityTarget;
pub use publish::size::PublishSize;
pub use publish::{JobsToPublish, Published};
pub use queue::act::{ActCursor, ActPage};
pub use queue::change_attempts::{ChangeAttempts, VersionMismatch};
pub use queue::job_list::{JobCursor, JobPage};
pub use queue::lanes::LaneTable;
pub use queue::overview::{PoolOverview, PoolSizes, QueueFigures};
pub use queue::policies::{LimitRemoved, PolicyChangeError, PolicyTable, QueueRate};
pub use queue::queue_list::{DeleteQueueOutcome, QueueCursor, QueueListing};
