//! Errors of requests.

use std::time::Duration;

use tidegate_core::v1::problem::{Applied, InvalidRequest, InvalidValue, Problem, ProblemCode};

/// An error of any kind.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The answer of the server instead of a success: a problem document.
#[derive(Debug, Clone)]
pub struct Rejection {
    /// The document.
    pub problem: Problem,
    /// When the same request may succeed, from now on: the header `Retry-After`.
    pub retry_after: Option<Duration>,
}

/// Why a request failed.
///
/// [`Error::applied`] says whether it changed something all the same.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server rejected the request.
    #[error("{} {}: {}", .0.problem.status, .0.problem.code, .0.problem.detail)]
    Rejected(Box<Rejection>),
    /// The answer is neither a success nor a problem document that this version knows: probably of a proxy, or of a
    /// later server.
    #[error("unexpected answer with status {status}: {text}")]
    UnexpectedAnswer {
        /// The HTTP status.
        status: u16,
        /// The field `detail`, or the beginning of the body.
        text: String,
        /// The field `applied`.
        applied: Option<Applied>,
        /// The header `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// There is no connection to the server. Nothing was sent.
    #[error("failed to connect to the server: {0}")]
    NotConnected(#[source] BoxError),
    /// The connection broke. The server may have received the request.
    #[error("the connection to the server broke: {0}")]
    ConnectionBroken(#[source] BoxError),
    /// There was no answer in time. The server may have received the request.
    #[error("no answer within {0:?}")]
    NoAnswer(Duration),
    /// The request is not valid. It was not sent.
    #[error("invalid request: {0}")]
    Invalid(InvalidRequest),
    /// A value could not be written as JSON. Nothing was sent.
    #[error("failed to write JSON: {0}")]
    Encode(#[source] serde_json::Error),
    /// The answer, or the result of a job, is not what was expected.
    #[error("failed to read {what}: {source}")]
    Decode {
        /// The object that was read.
        what: &'static str,
        /// Why it is not valid.
        source: serde_json::Error,
    },
    /// The client or the worker cannot be set up like this.
    #[error("{0}")]
    Setup(String),
}

/// Which requests are repeated after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepeatSafety {
    /// A repetition changes nothing that the request has changed already.
    Repeatable,
    /// Each execution counts.
    OnlyIfNotApplied,
}

impl Error {
    pub(crate) fn decode(what: &'static str, source: serde_json::Error) -> Self {
        Self::Decode { what, source }
    }

    /// The problem document, if the server sent one.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Rejected(rejection) => Some(&rejection.problem),
            _ => None,
        }
    }

    /// The machine-readable reason of the server, if there is one.
    #[must_use]
    pub fn code(&self) -> Option<ProblemCode> {
        self.problem().map(|problem| problem.code)
    }

    /// The HTTP status of the answer, if there was one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::UnexpectedAnswer { status, .. } => Some(*status),
            _ => self.problem().map(|problem| problem.status),
        }
    }

    /// Whether the change was made.
    #[must_use]
    pub fn applied(&self) -> Applied {
        match self {
            Self::Rejected(rejection) => rejection.problem.applied.unwrap_or(Applied::No),
            Self::NotConnected(_) | Self::Invalid(_) | Self::Encode(_) | Self::Setup(_) => {
                Applied::No
            }
            Self::UnexpectedAnswer { applied, .. } => applied.unwrap_or(Applied::Unknown),
            Self::ConnectionBroken(_) | Self::NoAnswer(_) | Self::Decode { .. } => Applied::Unknown,
        }
    }

    /// When the same request may succeed, if the server said so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Rejected(rejection) => rejection.retry_after,
            Self::UnexpectedAnswer { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the same request may succeed later: the server or the connection to it failed, not the request.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::NotConnected(_) | Self::ConnectionBroken(_) | Self::NoAnswer(_) => true,
            _ => matches!(self.status(), Some(408 | 429 | 500 | 502..=504)),
        }
    }

    /// Whether the client repeats the request.
    pub(crate) fn is_repeated(&self, safety: RepeatSafety) -> bool {
        // A full queue stays full for longer than a client should wait, and 500 is a defect.
        let is_short = self.is_temporary() && !matches!(self.status(), Some(429 | 500));
        match self.applied() {
            Applied::No => is_short,
            Applied::Unknown => is_short && safety == RepeatSafety::Repeatable,
            Applied::Yes => false,
        }
    }
}

impl From<InvalidRequest> for Error {
    fn from(invalid: InvalidRequest) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<InvalidValue> for Error {
    fn from(invalid: InvalidValue) -> Self {
        Self::Invalid(invalid.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(code: ProblemCode, applied: Applied) -> Error {
        let problem = Problem::new(code, "", "").with_applied(Some(applied));
        Error::Rejected(Box::new(Rejection {
            problem,
            retry_after: None,
        }))
    }

    #[test]
    fn what_may_be_applied_is_repeated_only_if_that_is_safe() {
        use Applied::{No, Unknown, Yes};
        let broken = || Error::ConnectionBroken("broken".into());
        for (error, safe, unsafe_) in [
            (rejected(ProblemCode::StorageUnavailable, No), true, true),
            (
                rejected(ProblemCode::StorageUnavailable, Unknown),
                true,
                false,
            ),
            (
                rejected(ProblemCode::TimeLimitReached, Unknown),
                true,
                false,
            ),
            (rejected(ProblemCode::NotDurable, Yes), false, false),
            (rejected(ProblemCode::QueueFull, No), false, false),
            (rejected(ProblemCode::KeyTaken, No), false, false),
            (Error::NotConnected("refused".into()), true, true),
            (broken(), true, false),
            (Error::NoAnswer(Duration::ZERO), true, false),
        ] {
            assert_eq!(error.is_repeated(RepeatSafety::Repeatable), safe, "{error}");
            assert_eq!(
                error.is_repeated(RepeatSafety::OnlyIfNotApplied),
                unsafe_,
                "{error}"
            );
        }
    }
}
