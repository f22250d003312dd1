//! The errors of the engine.

use tidegate_core::{LaneNumbers, Scope};
use tidegate_store::{NamespaceFull, PublishRefusal, StoreError, Unavailable};

use crate::metrics::storage_failure::record_store_error;

/// Why a call of the engine failed. Each front door has its own messages for these errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The backlog of the pool is full, or a large upload waited too long for others. Nothing was sent to Redis.
    #[error("too many publishes are waiting")]
    BacklogFull,
    /// The policy of the queue has it closed. Nothing was sent to Redis.
    #[error("the queue is closed")]
    QueueClosed,
    /// The queue would have more jobs than its policy permits. Nothing was stored.
    #[error("the queue is full")]
    QueueFull,
    /// A job has the key, and may not be replaced. Nothing was stored.
    #[error("a job has this key")]
    KeyTaken,
    /// The idempotency key stands for another request. Nothing was stored.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// A job prevents an atomic publish. Nothing was stored.
    #[error("job {index} was refused")]
    JobRefused {
        /// The index of the first such job.
        index: usize,
        /// Why it was refused.
        refusal: PublishRefusal,
    },
    /// The namespace has as much of one kind as it may. Nothing was stored.
    #[error("{0}")]
    NamespaceFull(NamespaceFull),
    /// The namespace publishes more jobs in a second than it may. Nothing was stored.
    #[error("the namespace may publish {max} jobs in a second, its limit `publishes_per_second`")]
    PublishesLimited {
        /// The limit.
        max: u64,
        /// After how long there are units for the publish, in ms; `None` = it has more jobs than the limit.
        retry_ms: Option<u64>,
    },
    /// The pool moves, and its own deployment has a job of a call that is to be atomic. Nothing was stored.
    #[error("the pool is moving, and an atomic call cannot change jobs in both of its deployments")]
    PoolMoves,
    /// The jobs of an atomic publish are, or would be, in several lanes. Nothing was stored.
    #[error("the keys of an atomic call are in several lanes of the queue")]
    SeveralLanes,
    /// Jobs with keys may be placed by too many numbers of lanes. Nothing was changed.
    #[error(
        "jobs with keys are still placed by these numbers of lanes: {0}; set one of them, or wait until such jobs have ended"
    )]
    KeysUnsettled(LaneNumbers),
    /// The payload of the job is in the cold tier, which cannot be read now.
    #[error("the payload is in the cold tier, which cannot be read now")]
    PayloadUnavailable,
    /// The pool moves to a deployment that the settings of this process do not name, and that may have the job. Jobs
    /// that are here may have been changed.
    #[error("the pool is moving, and this process does not know where to")]
    MoveUnknown,
    /// `waiters.in_process_max` is reached.
    #[error("too many consumers are waiting")]
    TooManyWaiting,
    /// `waiters.per_token_max` or `waiters.seats_per_token_max` is reached, by a token or an API key.
    #[error("too many consumers are waiting with this token")]
    TooManyWaitingWithToken,
    /// The limit `waiting_consumers` of the namespace is reached in this process.
    #[error(
        "{0} requests of the namespace are waiting in this process, its limit `waiting_consumers`"
    )]
    TooManyWaitingInNamespace(u64),
    /// The limit of the token is reached.
    #[error("the token has reached its rate limit")]
    RateLimited,
    /// Redis is unavailable, and there is no answer of the last hour about the token, its limit, or the API key; or it
    /// gave no units of the limit of the namespace.
    #[error("the token or a limit cannot be checked")]
    Unchecked,
    /// Redis has reached `maxmemory`. Nothing was stored.
    #[error("redis is full")]
    StorageFull,
    /// Redis takes no writes, or rejects the login. Nothing was stored. The error has been counted and logged.
    #[error("redis refuses writes")]
    StorageRefused,
    /// The durability was to include a write to disk, which Redis cannot confirm. Nothing was stored.
    #[error(
        "redis cannot confirm writes to disk: durability fsync needs `WAITAOF` (redis 7.2 or later, or valkey) and `appendonly yes`"
    )]
    DiskUnconfirmed,
    /// A call to Redis failed, and may have been executed. The error has been counted and logged.
    #[error("a call to redis failed")]
    StorageFailed,
}

/// Why a request is not allowed. Each front door has its own messages for these errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The request has no credential.
    #[error("the request has no API key")]
    KeyMissing,
    /// The credential is malformed, unknown, expired, revoked or damaged, or has a wrong secret; or it is for a pool
    /// that is not configured.
    #[error("the API key is not valid")]
    KeyInvalid,
    /// The credential does not have this scope.
    #[error("the API key lacks the scope {}", .0.name())]
    ScopeMissing(Scope),
    /// The credential gives no access to the namespace.
    #[error("the API key gives no access to this namespace")]
    NamespaceForbidden,
    /// The credential cannot be checked now.
    #[error(transparent)]
    Failed(#[from] EngineError),
}

/// Logs the failure, and counts a failure of Redis; a full namespace, and keys that are not settled, are none.
impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::NamespaceFull(full) => return Self::NamespaceFull(*full),
            StoreError::KeysUnsettled(numbers) => return Self::KeysUnsettled(*numbers),
            StoreError::ColdUnavailable(why) => {
                tracing::error!(%why, "failed to read a payload from the cold tier");
                return Self::PayloadUnavailable;
            }
            _ => {}
        }
        record_store_error(&error);
        match error.reason() {
            Some(Unavailable::OutOfMemory) => Self::StorageFull,
            Some(Unavailable::TooManyUploads) => Self::BacklogFull,
            _ => Self::StorageFailed,
        }
    }
}

impl From<PublishRefusal> for EngineError {
    fn from(refusal: PublishRefusal) -> Self {
        match refusal {
            PublishRefusal::KeyTaken => Self::KeyTaken,
            PublishRefusal::KeyReused => Self::KeyReused,
            // A lane that is asked has no unfinished job with the key.
            PublishRefusal::QueueFull | PublishRefusal::IsDone(_) => Self::QueueFull,
            PublishRefusal::QueueClosed => Self::QueueClosed,
        }
    }
}

impl EngineError {
    /// The limit of the namespace that has refused a publish.
    pub(crate) const fn limit_of_namespace(self) -> Option<&'static str> {
        match self {
            Self::NamespaceFull(full) => Some(full.kind),
            Self::PublishesLimited { .. } => Some("publishes_per_second"),
            _ => None,
        }
    }

    /// The error of a publish that failed. Counts and logs it.
    pub(crate) fn of_publish(error: StoreError) -> Self {
        let is_rejected = error.is_rejected_at_once();
        match Self::from(error) {
            Self::StorageFailed if is_rejected => Self::StorageRefused,
            other => other,
        }
    }

    /// The error of a failed look-up of a token or limit, which has been counted and logged already.
    pub(crate) const fn of_failed_check(error: &StoreError) -> Self {
        match error {
            StoreError::Unavailable { .. } => Self::Unchecked,
            _ => Self::StorageFailed,
        }
    }
}
