//! Everything that is not a success: the one list of statuses and texts.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use tidegate_store::StoreError;

use super::json;
use super::stored_as::LessDurable;
use crate::limits::Action;
use crate::metrics::storage_failed;
use crate::pool::PublishError;
use crate::waiters::NoRoom;

/// By then a waiting request may have left.
const RETRY_AFTER_SECONDS: u16 = 1;

/// Why a request is not answered with what it asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The path has broken percent-encoding.
    BadPath,
    /// No route has this path and method.
    ApiNotFound,
    /// Namespace or queue have more than 255 bytes.
    NameTooLong,
    /// The namespace is empty or has a byte that names may not have.
    NamespaceForbidden,
    /// The same for a queue, or for the list of queues to consume from.
    QueueForbidden,
    /// The list of queues to consume from has no name in it.
    NoQueue,
    /// The token names a pool that is not configured.
    PoolNotFound,
    /// There is no token.
    TokenMissing,
    /// The token does not open the namespace.
    TokenInvalid,
    /// Redis is unavailable, and nothing is remembered of the token or of its limit.
    Unchecked,
    /// The token has done as much as it may for now.
    OverLimit {
        /// What it wanted to do.
        action: Action,
        /// The token without its pool.
        token: Box<str>,
    },
    /// There is no room for another waiting consumer.
    NoRoom(NoRoom),
    /// Too much waits to be stored. Nothing was stored.
    BacklogFull,
    /// A parameter is not the number it should be.
    BadNumber(&'static str),
    /// The job would be gone before it is due.
    TtlShorterThanDelay,
    /// A job without tries could never be delivered.
    NoTries,
    /// More attributes than a job may have.
    TooManyAttributes,
    /// The body is longer than allowed.
    BodyTooLarge,
    /// The body did not come, or not in time.
    BodyUnreadable,
    /// The bodies of all requests together are as large as they may be. Nothing was stored.
    BodiesFull,
    /// The body of a bulk publish is not a JSON array.
    NotAnArray,
    /// The array of a bulk publish is empty.
    NoJobs,
    /// The array of a bulk publish is too long.
    TooManyJobs,
    /// An element of a bulk publish is longer than a job may be.
    JobTooLarge,
    /// Nothing to consume.
    NoJob,
    /// Nothing to peek at.
    QueueEmpty,
    /// No such job in this queue.
    JobNotFound,
    /// Jobs are stored, but not known to be as safe as the namespace asks for.
    LessDurable(Box<LessDurable>),
    /// Storage failed. What and why is in the logs, not in the answer.
    Internal,
}

/// Most refusals are errors. Nothing to consume is none: the wire calls it a message. A limit that is
/// reached goes by both names, as clients look for either.
#[derive(Serialize)]
struct Text {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<Cow<'static, str>>,
}

impl Text {
    fn error(text: impl Into<Cow<'static, str>>) -> Self {
        let error = Some(text.into());
        Self { error, msg: None }
    }
}

impl Refusal {
    fn status_and_text(&self) -> (StatusCode, Text) {
        let (status, words) = self.status_and_words();
        let text = match self {
            Self::BadNumber(name) => Text::error(format!("{words} {name}")),
            Self::NoJob => Text {
                error: None,
                msg: Some(words.into()),
            },
            Self::OverLimit { action, token } => {
                let text = format!("token({token}) {} {words}", action.name());
                Text {
                    error: Some(text.clone().into()),
                    msg: Some(text.into()),
                }
            }
            _ => Text::error(words),
        };
        (status, text)
    }

    const fn status_and_words(&self) -> (StatusCode, &'static str) {
        const BAD: StatusCode = StatusCode::BAD_REQUEST;
        const NOT_FOUND: StatusCode = StatusCode::NOT_FOUND;
        const UNAUTHORIZED: StatusCode = StatusCode::UNAUTHORIZED;
        const TOO_LARGE: StatusCode = StatusCode::PAYLOAD_TOO_LARGE;
        match self {
            Self::BadPath => (BAD, "invalid percent-encoding in the path"),
            Self::ApiNotFound => (NOT_FOUND, "api not found"),
            Self::NameTooLong => (BAD, "namespace or queue name too long"),
            Self::NamespaceForbidden => (BAD, "namespace name contains forbidden characters"),
            Self::QueueForbidden => (BAD, "queue name contains forbidden characters"),
            Self::NoQueue => (BAD, "invalid queue name(s)"),
            Self::PoolNotFound => (NOT_FOUND, "pool not found"),
            Self::TokenMissing => (UNAUTHORIZED, "token not found"),
            Self::TokenInvalid => (UNAUTHORIZED, "invalid token"),
            Self::Unchecked => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the token cannot be checked now, please retry later",
            ),
            Self::OverLimit { .. } => (
                StatusCode::TOO_MANY_REQUESTS,
                "reach the limit rate, please retry later",
            ),
            Self::NoRoom(NoRoom::InProcess) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "too many waiting consumers, please retry later",
            ),
            Self::NoRoom(NoRoom::ForToken) => (
                StatusCode::TOO_MANY_REQUESTS,
                "too many waiting consumers with this token, please retry later",
            ),
            Self::BacklogFull => (
                StatusCode::SERVICE_UNAVAILABLE,
                "too many publishes are waiting, please retry later",
            ),
            Self::BodiesFull => (
                StatusCode::SERVICE_UNAVAILABLE,
                "too many bytes are being received, please retry later",
            ),
            Self::BadNumber(_) => (BAD, "invalid"),
            Self::TtlShorterThanDelay => (BAD, "ttl is shorter than delay"),
            Self::NoTries => (BAD, "tries shouldn't be zero"),
            Self::TooManyAttributes => (BAD, "too many attributes, cannot exceed 16"),
            Self::BodyTooLarge => (TOO_LARGE, "body too large"),
            Self::BodyUnreadable => (BAD, "failed to read body"),
            Self::NotAnArray => (BAD, "request body should be an array of objects"),
            Self::NoJobs => (BAD, "no jobs"),
            Self::TooManyJobs => (BAD, "too many jobs"),
            Self::JobTooLarge => (TOO_LARGE, "job too large"),
            Self::NoJob => (NOT_FOUND, "no job available"),
            Self::QueueEmpty => (NOT_FOUND, "the queue is empty"),
            Self::JobNotFound => (NOT_FOUND, "job not found"),
            // What stands behind us did not say in time that it has the jobs.
            Self::LessDurable(_) => (StatusCode::GATEWAY_TIMEOUT, "less durable than asked for"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal error"),
        }
    }

    /// Why a token could not be checked. The failure was logged where it happened.
    pub(crate) const fn unchecked(error: &StoreError) -> Self {
        match error {
            StoreError::Unavailable { .. } => Self::Unchecked,
            StoreError::Corrupt(_) | StoreError::Invalid(_) => Self::Internal,
        }
    }

    /// Whether the rest of the request is not worth waiting for.
    const fn ends_connection(&self) -> bool {
        matches!(
            self,
            Self::BodyTooLarge | Self::BodyUnreadable | Self::BodiesFull
        )
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        let (status, text) = self.status_and_text();
        let mut response = match &self {
            Self::LessDurable(less) => less.answer(status),
            _ => json::answer(status, &text),
        };
        if let Self::NoRoom(_) | Self::BacklogFull | Self::BodiesFull | Self::Unchecked = self {
            let retry = HeaderValue::from(RETRY_AFTER_SECONDS);
            response.headers_mut().insert(header::RETRY_AFTER, retry);
        }
        if self.ends_connection() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        response
    }
}

impl From<NoRoom> for Refusal {
    fn from(reason: NoRoom) -> Self {
        Self::NoRoom(reason)
    }
}

impl From<PublishError> for Refusal {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Backlog(_) => Self::BacklogFull,
            PublishError::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        storage_failed(&error);
        Self::Internal
    }
}
