//! The errors of the engine.

use tidegate_store::StoreError;

use crate::storage_failure::record_store_error;

/// Why a call of the engine failed. Each front door has its own messages for these errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The backlog of the pool is full. Nothing was sent to Redis.
    #[error("too many publishes are waiting")]
    BacklogFull,
    /// `waiters.in_process_max` is reached.
    #[error("too many consumers are waiting")]
    TooManyWaiting,
    /// `waiters.per_token_max` is reached.
    #[error("too many consumers are waiting with this token")]
    TooManyWaitingWithToken,
    /// The limit of the token is reached.
    #[error("the token has reached its rate limit")]
    RateLimited,
    /// Redis is unavailable, and there is no answer of the last hour about the token or its limit.
    #[error("the token cannot be checked")]
    Unchecked,
    /// A call to Redis failed, and may have been executed. The error has been counted and logged.
    #[error("a call to redis failed")]
    StorageFailed,
}

/// Counts and logs the failure.
impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        record_store_error(&error);
        Self::StorageFailed
    }
}

impl EngineError {
    /// The error of a failed look-up of a token or limit, which has been counted and logged already.
    pub(crate) const fn of_failed_check(error: &StoreError) -> Self {
        match error {
            StoreError::Unavailable { .. } => Self::Unchecked,
            StoreError::Corrupt(_) | StoreError::Invalid(_) => Self::StorageFailed,
        }
    }
}
