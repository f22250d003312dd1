//! What can go wrong between us and Redis.

use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tidegate_core::InvalidJob;
use tidegate_core::codec::BadRecord;

/// A call that failed. Whether Redis carried it out is unknown when the reason is
/// [`Unavailable::Away`].
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Redis cannot serve the call now; a later one may succeed.
    #[error("redis is unavailable ({reason}): {detail}")]
    Unavailable {
        /// What keeps Redis from serving.
        reason: Unavailable,
        /// What the connection or the server said.
        detail: String,
    },
    /// What is stored, or what came back, is not what this build expects.
    #[error("unexpected data in redis: {0}")]
    Corrupt(String),
    /// The caller asked for something that cannot be stored; nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidJob),
}

/// What keeps Redis from serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unavailable {
    /// No connection, or no answer in time.
    Away,
    /// The server is loading its data, running a long script, or changing roles.
    NotReady,
    /// The server is a replica, or cannot write to its disk.
    ReadOnly,
    /// The server has reached `maxmemory`.
    OutOfMemory,
    /// User or password are wrong, or lack a permission.
    Forbidden,
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Away => "away",
            Self::NotReady => "not ready",
            Self::ReadOnly => "read-only",
            Self::OutOfMemory => "out of memory",
            Self::Forbidden => "forbidden",
        })
    }
}

impl StoreError {
    /// No answer came within this time. Whether Redis carried the call out is unknown.
    #[must_use]
    pub fn timed_out(after: Duration) -> Self {
        Self::away(format!("no answer within {after:?}"))
    }

    pub(crate) const fn away(detail: String) -> Self {
        Self::Unavailable {
            reason: Unavailable::Away,
            detail,
        }
    }

    pub(crate) const fn not_ready(detail: String) -> Self {
        Self::Unavailable {
            reason: Unavailable::NotReady,
            detail,
        }
    }

    /// Whether no answer came: the outcome of the call is unknown.
    pub(crate) const fn is_away(&self) -> bool {
        matches!(
            self,
            Self::Unavailable {
                reason: Unavailable::Away,
                ..
            }
        )
    }

    /// Whether Redis is known not to have carried the call out. A call of several steps may have taken some of them before.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        match self {
            // A right that a user lacks shows in the middle of a script.
            Self::Unavailable { reason, .. } => {
                !matches!(reason, Unavailable::Away | Unavailable::Forbidden)
            }
            Self::Invalid(_) => true,
            Self::Corrupt(_) => false,
        }
    }

    /// Whether the server may be another one than before, or may have begun anew.
    pub(crate) const fn may_be_a_restart(&self) -> bool {
        matches!(
            self,
            Self::Unavailable {
                reason: Unavailable::Away | Unavailable::NotReady | Unavailable::ReadOnly,
                ..
            }
        )
    }

    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt(what.into())
    }
}

impl From<BadRecord> for StoreError {
    fn from(bad: BadRecord) -> Self {
        Self::Corrupt(bad.to_string())
    }
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        let reason = match error.kind() {
            ErrorKind::Server(ServerErrorKind::ReadOnly) => Unavailable::ReadOnly,
            ErrorKind::Server(
                ServerErrorKind::BusyLoading
                | ServerErrorKind::TryAgain
                | ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::MasterDown,
            ) => Unavailable::NotReady,
            ErrorKind::Server(ServerErrorKind::NoPerm) | ErrorKind::AuthenticationFailed => {
                Unavailable::Forbidden
            }
            ErrorKind::Server(_) | ErrorKind::Extension => match error.code() {
                Some("OOM") => Unavailable::OutOfMemory,
                Some("MISCONF" | "NOREPLICAS") => Unavailable::ReadOnly,
                Some("BUSY") => Unavailable::NotReady,
                Some("NOAUTH" | "WRONGPASS" | "NOPERM") => Unavailable::Forbidden,
                _ => return Self::Corrupt(error.to_string()),
            },
            ErrorKind::UnexpectedReturnType => return Self::Corrupt(error.to_string()),
            _ => Unavailable::Away,
        };
        Self::Unavailable {
            reason,
            detail: error.to_string(),
        }
    }
}
