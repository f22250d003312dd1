//! All answers of the admin port other than successes: the only list of their statuses and texts.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use tidegate_core::InvalidName;
use tidegate_engine::EngineError;
use tidegate_store::StoreError;

use super::limiter::LimitBody;
use crate::http::json;

const NO_LIMIT: &str = "the read and write of limiter can't be <= 0 at the same time";

/// Why a request on the admin port fails.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AdminError {
    /// The request to create a token has no description.
    #[error("invalid description")]
    NoDescription,
    /// The token in the request is so short that it could be guessed.
    #[error("the user token was too short")]
    TokenTooShort,
    /// The token already exists.
    #[error("the token has already existed")]
    TokenExists,
    /// The name of the namespace is too long.
    #[error("the namespace name was too long")]
    NamespaceTooLong,
    /// The name of the namespace is empty or has a byte that is not allowed in names.
    #[error("namespace name contains forbidden characters")]
    NamespaceForbidden,
    /// The token or the request names a pool that is not configured.
    #[error("the pool was not exists")]
    PoolNotFound,
    /// The body has no reports about relays.
    #[error("the body should be an object with process and items: the reports about relays")]
    NotReports,
    /// The body is not an object of the integers of a limit.
    #[error("the body should be an object with integers read, write and interval")]
    NotALimit,
    /// `read` and `write` are 0: neither consumes nor publishes would be limited.
    #[error("{}", NO_LIMIT)]
    LimitsNothing(LimitBody),
    /// `read` and `write` are not positive, and at least one is negative.
    #[error("{}", NO_LIMIT)]
    LimitsNegative,
    /// The interval of a limit is 0.
    #[error("interval should be > 0")]
    IntervalZero,
    /// The interval of a limit is negative.
    #[error("limiter interval should be > 0")]
    IntervalNegative,
    /// The interval of a limit is more than 4,294,967,295 s.
    #[error("limiter interval should be <= 4294967295")]
    IntervalTooLong,
    /// The token already has a limit.
    #[error("throttler token({token}) has already exists")]
    LimitExists {
        /// The token without its pool.
        token: String,
    },
    /// The status of the access log is neither `enable` nor `disable`.
    #[error("invalid status")]
    NotASwitch,
    /// The body is not a quota: it is no object, has another field, or a value is out of its bounds.
    #[error("invalid quota: {0}")]
    InvalidQuota(String),
    /// The stored quota is damaged, or of a later release.
    #[error("the stored quota cannot be read, the defaults apply: set it again, or delete it")]
    QuotaUnreadable,
    /// The quota has another revision than the request requires.
    #[error("the quota has been changed: read it again, and repeat the change with its new ETag")]
    VersionMismatch,
    /// `If-Match` or `If-None-Match` has another form.
    #[error(
        "If-Match should be the ETag of the quota, in quotes, or *; If-None-Match should be *; send one of them"
    )]
    NotAnETag,
    /// The body did not arrive completely and in time.
    #[error("failed to read body")]
    BodyUnreadable,
    /// Redis has reached `maxmemory`.
    #[error(
        "redis is full (maxmemory), and nothing was stored: delete jobs, or give it more memory"
    )]
    StorageFull,
    /// Answers that clients have not read yet have reached their limit.
    #[error("too many answers of this port are not read; repeat the request")]
    AnswersFull,
    /// A failure of Redis. The log has the details, the answer does not.
    #[error("internal error")]
    Internal,
}

/// The JSON body. Its fields have the order of lmstfy.
#[derive(Serialize)]
struct Text<'a> {
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    limiter: Option<&'a LimitBody>,
}

impl AdminError {
    const fn status(&self) -> StatusCode {
        match self {
            Self::Internal | Self::LimitExists { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            Self::QuotaUnreadable => StatusCode::CONFLICT,
            Self::VersionMismatch => StatusCode::PRECONDITION_FAILED,
            Self::AnswersFull => StatusCode::SERVICE_UNAVAILABLE,
            Self::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl IntoResponse for AdminError {
    fn into_response(self) -> Response<Body> {
        let text = Text {
            error: self.to_string(),
            limiter: match &self {
                Self::LimitsNothing(limiter) => Some(limiter),
                _ => None,
            },
        };
        let mut response = json::answer(self.status(), &text);
        if self == Self::AnswersFull {
            let retry = HeaderValue::from_static("1");
            response.headers_mut().insert(header::RETRY_AFTER, retry);
        }
        if self == Self::BodyUnreadable {
            // The connection is closed instead of reading the rest of the body.
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        response
    }
}

/// For namespaces in requests about tokens and limits.
impl From<InvalidName> for AdminError {
    fn from(error: InvalidName) -> Self {
        match error {
            InvalidName::TooLong => Self::NamespaceTooLong,
            InvalidName::ForbiddenCharacters => Self::NamespaceForbidden,
        }
    }
}

impl From<StoreError> for AdminError {
    fn from(error: StoreError) -> Self {
        EngineError::from(error).into()
    }
}

/// The other errors of the engine are about publishes and consumes, which the admin port does not have.
impl From<EngineError> for AdminError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::StorageFull => Self::StorageFull,
            _ => Self::Internal,
        }
    }
}
