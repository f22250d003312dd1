//! All answers other than successes: the only list of their statuses and texts.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use tidegate_engine::{EngineError, LimitedAction};

use super::publish_answer::NotDurableBody;
use crate::http::json;
use crate::http::off_runtime::Panicked;
use crate::http::query::BadNumber;
use crate::http::time_limit::TookTooLong;

/// The `Retry-After` of answers about a lack of room.
const RETRY_AFTER_SECONDS: u16 = 1;

/// Why a request is not answered with a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApiError {
    /// The path has invalid percent-encoding.
    BadPath,
    /// No route has this path and method.
    ApiNotFound,
    /// The name of the namespace or queue is longer than `requests.name_bytes_max`.
    NameTooLong,
    /// The name of the namespace is empty or has a byte that is not allowed in names.
    NamespaceForbidden,
    /// The same for a queue, or for the list of queues of a consume.
    QueueForbidden,
    /// The list of queues of a consume has no name, or more than `requests.consume_queues_max`.
    NoQueue,
    /// The token names a pool that is not configured.
    PoolNotFound,
    /// The request has no token.
    TokenMissing,
    /// The token does not give access to the namespace, or was revoked during a wait.
    TokenInvalid,
    /// Redis is unavailable, and there is no answer of the last hour about the token or its limit.
    Unchecked,
    /// The rate limit of the token is reached.
    OverLimit {
        action: LimitedAction,
        /// The token without its pool.
        token: Box<str>,
    },
    /// The limit on waiting consumers of this process is reached.
    TooManyWaiting,
    /// The limit on waiting consumers with the same token is reached.
    TooManyWaitingWithToken,
    /// The backlog of the pool is full. Nothing was stored.
    BacklogFull,
    /// The policy of the queue has it closed.
    QueueClosed,
    /// The queue would have more jobs than its policy permits. Nothing was stored.
    QueueFull,
    /// The namespace has as many queues or jobs as it may: the name of the limit. Nothing was stored.
    NamespaceFull(&'static str),
    /// The namespace publishes more jobs in a second than it may. Nothing was stored.
    PublishesLimited,
    /// The limit on waiting consumers of the namespace is reached in this process.
    TooManyWaitingInNamespace,
    /// The parameter of this name is not a number in its range.
    BadNumber(&'static str),
    /// The job would expire before it is due.
    TtlShorterThanDelay,
    /// `tries` is 0: the job could never be delivered.
    NoTries,
    /// More attributes than a job may have.
    TooManyAttributes,
    /// The attributes have more bytes than headers may have.
    AttributesTooLarge,
    /// The body is longer than its limit.
    BodyTooLarge,
    /// The body did not arrive completely and in time.
    BodyUnreadable,
    /// The bodies of all requests together have reached their limit. Nothing was stored.
    BodiesFull,
    /// Answers that clients have not read yet have reached their limit.
    AnswersFull,
    /// The body of a bulk publish is not a JSON array.
    NotAnArray,
    /// The array of a bulk publish is empty.
    NoJobs,
    /// The array of a bulk publish has more elements than `requests.bulk_jobs_max`.
    TooManyJobs,
    /// An element of a bulk publish is longer than `requests.job_bytes_max`.
    JobTooLarge,
    /// There is no job to consume.
    NoJob,
    /// There is no ready job to peek at.
    QueueEmpty,
    /// The queue has no job with this id.
    JobNotFound,
    /// Jobs of the pool are in a deployment that the settings of this process do not name yet. Nothing was changed.
    MoveUnknown,
    /// The server from which queues drain may have the job, and did not delete it.
    DrainedServerFailed,
    /// The jobs are stored, but the durability of the namespace was not confirmed in time.
    LessDurable(Box<NotDurableBody>),
    /// A failure of Redis, or a time limit of this process. The log has the details, the answer does not.
    Internal,
}

/// The JSON body. Most texts are in `error`. lmstfy answers "no job available" in `msg`. A reached rate limit is in
/// both, as clients read either.
#[derive(Serialize)]
struct ApiErrorBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<Cow<'static, str>>,
}

impl ApiErrorBody {
    fn error(text: impl Into<Cow<'static, str>>) -> Self {
        let error = Some(text.into());
        Self { error, msg: None }
    }

    /// Clients read either.
    fn over_limit(text: String) -> Self {
        Self {
            error: Some(text.clone().into()),
            msg: Some(text.into()),
        }
    }
}

impl From<Box<NotDurableBody>> for ApiError {
    fn from(body: Box<NotDurableBody>) -> Self {
        Self::LessDurable(body)
    }
}

impl ApiError {
    fn status_and_text(&self) -> (StatusCode, ApiErrorBody) {
        let (status, words) = self.status_and_message();
        let text = match self {
            Self::BadNumber(name) => ApiErrorBody::error(format!("{words} {name}")),
            Self::NoJob => ApiErrorBody {
                error: None,
                msg: Some(words.into()),
            },
            Self::OverLimit { action, token } => {
                ApiErrorBody::over_limit(format!("token({token}) {} {words}", action.name()))
            }
            Self::PublishesLimited => {
                ApiErrorBody::over_limit(format!("publishes_per_second of the namespace {words}"))
            }
            Self::TooManyWaitingInNamespace => ApiErrorBody::error(format!(
                "too many waiting consumers in this namespace (waiting_consumers), {words}"
            )),
            Self::NamespaceFull(kind) => {
                ApiErrorBody::error(format!("the namespace has too many {kind}, {words}"))
            }
            _ => ApiErrorBody::error(words),
        };
        (status, text)
    }

    const fn status_and_message(&self) -> (StatusCode, &'static str) {
        const BAD: StatusCode = StatusCode::BAD_REQUEST;
        const NOT_FOUND: StatusCode = StatusCode::NOT_FOUND;
        const UNAUTHORIZED: StatusCode = StatusCode::UNAUTHORIZED;
        const TOO_LARGE: StatusCode = StatusCode::PAYLOAD_TOO_LARGE;
        const TOO_MANY: StatusCode = StatusCode::TOO_MANY_REQUESTS;
        const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
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
                UNAVAILABLE,
                "the token cannot be checked now, please retry later",
            ),
            Self::OverLimit { .. } | Self::PublishesLimited => {
                (TOO_MANY, "reach the limit rate, please retry later")
            }
            Self::TooManyWaiting => (
                UNAVAILABLE,
                "too many waiting consumers, please retry later",
            ),
            Self::TooManyWaitingWithToken => (
                TOO_MANY,
                "too many waiting consumers with this token, please retry later",
            ),
            Self::BacklogFull => (
                UNAVAILABLE,
                "too many publishes are waiting, please retry later",
            ),
            Self::QueueClosed => (BAD, "the queue is closed, it accepts no jobs"),
            Self::QueueFull => (TOO_MANY, "the queue is full, please retry later"),
            Self::NamespaceFull(_) | Self::TooManyWaitingInNamespace => {
                (TOO_MANY, "please retry later")
            }
            Self::BodiesFull => (
                UNAVAILABLE,
                "too many bytes are being received, please retry later",
            ),
            Self::AnswersFull => (
                UNAVAILABLE,
                "too many answers are not read, please retry later",
            ),
            Self::BadNumber(_) => (BAD, "invalid"),
            Self::TtlShorterThanDelay => (BAD, "ttl is shorter than delay"),
            Self::NoTries => (BAD, "tries shouldn't be zero"),
            Self::TooManyAttributes => (BAD, "too many attributes, cannot exceed 16"),
            Self::AttributesTooLarge => (BAD, "attributes too large, cannot exceed 8192 bytes"),
            Self::BodyTooLarge => (TOO_LARGE, "body too large"),
            Self::BodyUnreadable => (BAD, "failed to read body"),
            Self::NotAnArray => (BAD, "request body should be an array of objects"),
            Self::NoJobs => (BAD, "no jobs"),
            Self::TooManyJobs => (BAD, "too many jobs"),
            Self::JobTooLarge => (TOO_LARGE, "job too large"),
            Self::NoJob => (NOT_FOUND, "no job available"),
            Self::QueueEmpty => (NOT_FOUND, "the queue is empty"),
            Self::JobNotFound => (NOT_FOUND, "job not found"),
            Self::MoveUnknown => (UNAVAILABLE, "the pool is moving, please retry later"),
            Self::DrainedServerFailed => (
                UNAVAILABLE,
                "the server that is drained does not answer, please retry later",
            ),
            // 504, because Redis did not confirm in time. `LessDurable` has its own text.
            Self::LessDurable(_) => (StatusCode::GATEWAY_TIMEOUT, "less durable than asked for"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal error"),
        }
    }

    /// Whether a retry may succeed soon. The answer then has a `Retry-After`.
    const fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::TooManyWaiting
                | Self::TooManyWaitingWithToken
                | Self::BacklogFull
                | Self::QueueFull
                | Self::NamespaceFull(_)
                | Self::PublishesLimited
                | Self::TooManyWaitingInNamespace
                | Self::BodiesFull
                | Self::AnswersFull
                | Self::Unchecked
                | Self::MoveUnknown
                | Self::DrainedServerFailed
        )
    }

    /// Whether the connection is closed instead of reading the rest of the body.
    const fn ends_connection(&self) -> bool {
        matches!(
            self,
            Self::BodyTooLarge | Self::BodyUnreadable | Self::BodiesFull
        )
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response<Body> {
        let (status, text) = self.status_and_text();
        let mut response = match &self {
            Self::LessDurable(less) => less.answer(status),
            _ => json::answer(status, &text),
        };
        if self.is_temporary() {
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

/// The 503 if the budget of unread bytes has no room for the answer that was made.
pub(crate) fn over_budget() -> Response<Body> {
    ApiError::AnswersFull.into_response()
}

/// Callers must handle [`EngineError::RateLimited`] themselves, because [`ApiError::OverLimit`] names the token.
impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::BacklogFull => Self::BacklogFull,
            EngineError::QueueClosed => Self::QueueClosed,
            EngineError::QueueFull => Self::QueueFull,
            EngineError::NamespaceFull(full) => Self::NamespaceFull(full.kind),
            EngineError::PublishesLimited { .. } => Self::PublishesLimited,
            EngineError::TooManyWaitingInNamespace(_) => Self::TooManyWaitingInNamespace,
            EngineError::TooManyWaiting => Self::TooManyWaiting,
            EngineError::TooManyWaitingWithToken => Self::TooManyWaitingWithToken,
            EngineError::Unchecked => Self::Unchecked,
            EngineError::MoveUnknown => Self::MoveUnknown,
            EngineError::RateLimited
            | EngineError::StorageFailed
            | EngineError::StorageFull
            | EngineError::PayloadUnavailable
            | EngineError::StorageRefused
            | EngineError::DiskUnconfirmed
            | EngineError::PoolMoves
            // Jobs of this wire have no keys.
            | EngineError::KeyTaken
            | EngineError::KeyReused
            | EngineError::SeveralLanes
            | EngineError::KeysUnsettled(_)
            | EngineError::JobRefused { .. } => Self::Internal,
        }
    }
}

impl From<TookTooLong> for ApiError {
    fn from(_: TookTooLong) -> Self {
        Self::Internal
    }
}

impl From<Panicked> for ApiError {
    fn from(_: Panicked) -> Self {
        Self::Internal
    }
}

impl From<BadNumber> for ApiError {
    fn from(BadNumber(name): BadNumber) -> Self {
        Self::BadNumber(name)
    }
}
