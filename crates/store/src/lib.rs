//! Access to Redis. No other crate sends commands to Redis.
//!
//! Each verb is one script and one atomic change. Its file in `verbs/` calls a script in `lua/`, which begins with its
//! contract. Expected outcomes are values, such as [`CancelOutcome::AlreadyGone`]; [`StoreError`] is for failures.
//!
//! A call is sent once. If the connection breaks afterwards, the outcome of the call is unknown: it fails, and is not
//! repeated silently.

mod api_keys;
mod audit;
mod bodies;
mod call_metrics;
mod calls;
mod clocks;
mod cold;
mod cold_status;
mod cold_tier;
mod config;
mod connect;
mod connect_error;
mod directory;
mod durability;
mod error;
mod history;
mod inline_limit;
mod lanes;
mod limits;
mod link;
mod moves;
mod namespace_limits;
mod namespace_quotas;
mod permissions;
mod policies;
mod pools;
mod queue_limits;
mod queue_sizes;
mod relays;
mod relays_report;
mod reply;
mod schedules;
mod script;
mod script_call;
mod server_buckets;
mod server_check;
mod server_figures;
mod server_info;
mod server_times;
mod stamp;
mod store;
mod subscription;
mod table;
mod tokens;
mod until_durable;
mod verbs;
mod waiter_id;
mod workers;
mod write_probe;

pub use api_keys::{ApiKey, ApiKeyAnswer, ApiKeyCreated, ApiKeyPage, ApiKeys, SecretHash};
pub use audit::{AuditEvent, AuditFinding, AuditOptions, AuditSummary, Inconsistency};
pub use bodies::SMALL_TRANSFER_BYTES_MAX;
pub use cold_status::{ColdListing, ColdStatus};
pub use config::{DEFAULT_URL, StoreConfig, UnsafeServer};
pub use connect_error::{ConnectError, ServerCheckError};
pub use directory::JobDirectory;
pub use durability::DurabilityError;
pub use error::{NamespaceFull, StoreError, Unavailable};
pub use history::{FailureEffect, LoggedFailure};
pub use lanes::{LaneRows, Lanes};
pub use limits::{
    LimitCreated, LimitHolder, LimitSide, LimitUnit, RateLimit, RateLimits, UnitTaken,
};
pub use namespace_limits::LimitsByNamespace;
pub use pools::{OPEN_FILES_OF_A_STORE, PoolError};
pub use queue_sizes::{BucketSizes, QueueSizes, ReadSizes};
pub use relays_report::{NewRelayReport, RELAY_REPORT_TTL, StoredRelayReport};
pub use schedules::{
    SCHEDULE_ATTRIBUTE, ScheduleDefinition, SchedulePage, ScheduleTicks, ScheduleTimes,
    ScheduledJob, Schedules, schedule_job_key,
};
pub use server_buckets::ServerBuckets;
pub use server_figures::ServerFigures;
pub use server_times::ServerTime;
pub use store::Store;
pub use subscription::{Alarm, Doorbell, Messages, PumpVerb};
pub use table::{
    Damaged, InvalidRevision, NamespacedName, Row, Table, TableChanges, TableHash, TableRevision,
    TableRows, TableSetOutcome, TableValue,
};
pub use tokens::{TokenCreated, Tokens};
pub use until_durable::Receipt;
pub use verbs::{
    AckRequest, Acked, AfterFailure, COLD_CALL_BYTES, COLD_CALL_JOBS, CancelOutcome, ChangeOutcome,
    Claim, ColdMark, ColdProgress, DueTimes, FailRequest, FrozenPayload, IdempotentRequest,
    InvalidPosition, JobEnd, JobReference, JobSelection, JobSurroundings, JobsBefore, KeyPlace,
    KeyedCall, KeysCursor, LIST_HINTS_MAX, LOAD_HINTS_MAX, LaneKeys, LeaseLength, LeaseOutcome,
    LeasedJob, ListPosition, ListedJob, ListedJobs, ListedQueue, LoadSlotOutcome, MOVE_TIMERS_MAX,
    MoveDueOutcome, NewResult, POLL_QUEUES_MAX, PUBLISH_JOBS_MAX, PeekedJob, PolledQueue,
    PromoteOutcome, Promoted, PublishJob, PublishRefusal, PublishReply, PublishedTicks, QueuePage,
    QueuePosition, RateOwner, ReserveOptions, ReservedJobs, Roster, SCHEDULES_DUE_MAX,
    SWEEP_CHUNKS_MAX, ScheduleTick, SchedulesDue, ServerLeaders, StoredJob, SweepOutcome,
    TakenUnits, TickOutcome, TickPublish, WaitingOutcome, WarmPayload, WarmPayloads,
};
pub use workers::{StoredWorkers, WorkerEntry};
