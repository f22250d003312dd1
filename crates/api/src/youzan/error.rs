//! Why a command is not answered with a success: the only place with the texts of errors.

use tidegate_engine::EngineError;
use tidegate_store::DurabilityError;

use crate::http::body::BodyError;
use crate::http::off_runtime::Panicked;

/// An error of a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum YouzanError {
    /// The request is invalid. The text says what to send instead. Nothing was changed.
    #[error("{0}")]
    Invalid(String),
    /// The request has no token or another one.
    #[error("send the token of this listener as `Authorization: Bearer TOKEN`")]
    TokenInvalid,
    /// A page of another site may have made a browser send the request.
    #[error("the request was refused: {0}")]
    CrossSite(&'static str),
    /// The queue is closed or full. Nothing was stored.
    #[error("the topic accepts no jobs now, since its queue is {0}; the job was not stored")]
    Refused(&'static str),
    /// Too many clients wait for jobs.
    #[error("too many consumers are waiting; repeat the pop later")]
    TooManyWaiting,
    /// Nothing was stored, and a repeated request may succeed.
    #[error("{0}; nothing was changed, repeat the request later")]
    Busy(String),
    /// The job is stored, with less durability than the settings require.
    #[error("the job is stored, but {0}; it is safe to add it again")]
    NotDurable(String),
    /// Redis failed.
    #[error(
        "the storage is unavailable; the request may or may not have been carried out, and is safe to repeat"
    )]
    StorageFailed,
    /// A defect of this program.
    #[error("internal error; the request may or may not have been carried out")]
    Internal,
}

impl YouzanError {
    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self::Invalid(text.into())
    }

    pub(super) fn not_durable(error: &DurabilityError) -> Self {
        Self::NotDurable(error.to_string())
    }

    /// Whether the client has to change its request.
    pub(super) const fn is_rejection(&self) -> bool {
        matches!(
            self,
            Self::Invalid(_) | Self::TokenInvalid | Self::CrossSite(_) | Self::Refused(_)
        )
    }

    /// Other answers take all memory for answers.
    pub(super) fn answers_unread() -> Self {
        Self::Busy(
            "clients have not read their answers, which take all memory for answers".to_owned(),
        )
    }
}

impl From<EngineError> for YouzanError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::QueueClosed => Self::Refused("closed"),
            EngineError::QueueFull | EngineError::NamespaceFull(_) => Self::Refused("full"),
            EngineError::TooManyWaiting
            | EngineError::TooManyWaitingInNamespace(_)
            | EngineError::TooManyWaitingWithToken => Self::TooManyWaiting,
            EngineError::StorageFailed | EngineError::StorageRefused => Self::StorageFailed,
            // A job of this wire replaces the job with its id, and is published alone.
            EngineError::KeyTaken
            | EngineError::KeyReused
            | EngineError::SeveralLanes
            | EngineError::KeysUnsettled(_)
            | EngineError::JobRefused { .. } => Self::Internal,
            EngineError::BacklogFull
            | EngineError::MoveUnknown
            | EngineError::PoolMoves
            | EngineError::RateLimited
            | EngineError::PublishesLimited { .. }
            | EngineError::Unchecked
            | EngineError::StorageFull
            | EngineError::PayloadUnavailable
            | EngineError::DiskUnconfirmed => Self::Busy(error.to_string()),
        }
    }
}

impl From<BodyError> for YouzanError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self::invalid("the request is too large"),
            BodyError::TooSlow => Self::invalid("the request did not arrive in time"),
            BodyError::Broken => Self::invalid("the request breaks off"),
            BodyError::OverBudget => {
                Self::Busy("other requests take all memory for requests".to_owned())
            }
        }
    }
}

impl From<Panicked> for YouzanError {
    fn from(_: Panicked) -> Self {
        Self::Internal
    }
}
