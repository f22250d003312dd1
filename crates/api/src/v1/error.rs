//! All problems that the native API answers with: the only place where errors of the engine get their codes.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use tidegate_core::JobId;
use tidegate_core::v1::problem::{Applied, InvalidRequest, InvalidValue, Problem, ProblemCode};
use tidegate_daemon::BudgetExhausted;
use tidegate_engine::{AccessError, EngineError, VersionMismatch};
use tidegate_store::{DurabilityError, StoreError};
use ulid::Ulid;

use crate::http::body::BodyError;
use crate::http::off_runtime::Panicked;
use crate::http::time_limit::TookTooLong;

/// The `Retry-After` of problems that may be over soon.
const RETRY_AFTER_SECONDS: u64 = 1;

/// Why a request is not answered with a success.
#[derive(Debug, Clone)]
pub(super) struct NativeError {
    code: ProblemCode,
    detail: String,
    field: Option<String>,
    job: Option<JobId>,
    applied: Option<Applied>,
    allow: Option<&'static str>,
    /// The `Retry-After`, if the problem has one.
    retry_seconds: u64,
}

impl NativeError {
    pub(super) fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            field: None,
            job: None,
            applied: Some(code.info().applied),
            allow: None,
            retry_seconds: RETRY_AFTER_SECONDS,
        }
    }

    /// The problem with the description of its code.
    pub(super) fn of(code: ProblemCode) -> Self {
        Self::new(code, code.info().description)
    }

    /// A defect of this program.
    pub(super) fn internal() -> Self {
        Self::of(ProblemCode::InternalError)
    }

    /// The mistake of the client, or the failure.
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    /// The same for a request whose change was made.
    pub(super) const fn after_change(mut self) -> Self {
        self.applied = Some(Applied::Yes);
        self
    }

    /// The same for a request of which `some` part was carried out before.
    pub(super) const fn after_part(mut self, some: bool) -> Self {
        if some {
            self.applied = Some(Applied::Unknown);
        }
        self
    }

    pub(super) fn of_job(mut self, id: JobId) -> Self {
        self.job = Some(id);
        self
    }

    pub(super) fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The same, where the body is a payload.
    pub(super) fn of_payload(self) -> Self {
        match self.code {
            ProblemCode::BodyTooLarge => Self::of(ProblemCode::PayloadTooLarge),
            _ => self,
        }
    }

    /// The path exists, but not with this method.
    pub(super) fn method_not_allowed(allow: &'static str) -> Self {
        Self {
            allow: Some(allow),
            ..Self::of(ProblemCode::MethodNotAllowed)
        }
    }

    /// The jobs are stored, but less durable than requested.
    pub(super) fn not_durable(error: &DurabilityError, id: Option<JobId>) -> Self {
        let problem = Self::new(
            ProblemCode::NotDurable,
            format!("the job is stored, but {error}"),
        );
        Self { job: id, ..problem }
    }

    /// The problem document of this error in a request.
    pub(super) fn problem(self, request_id: Ulid) -> Problem {
        let mut problem = Problem::new(self.code, self.detail, request_id.to_string());
        problem.field = self.field;
        problem.job = self.job.map(|id| id.to_string());
        problem.applied = self.applied;
        problem
    }

    /// The answer. `changes` = whether the request can change anything.
    pub(super) fn answer(mut self, request_id: Ulid, changes: bool) -> Response<Body> {
        if !changes {
            self.applied = None;
        }
        let (code, allow, retry_seconds) = (self.code, self.allow, self.retry_seconds);
        let status = StatusCode::from_u16(code.status());
        let body = serde_json::to_vec(&self.problem(request_id)).unwrap_or_default();
        let content_type = [(header::CONTENT_TYPE, Problem::CONTENT_TYPE)];
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, content_type, body).into_response();
        let headers = response.headers_mut();
        if code.has_retry_after() {
            headers.insert(header::RETRY_AFTER, retry_seconds.into());
        }
        if let Some(allow) = allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// The 503 if the budget of unread bytes has no room for the answer that was made.
pub(crate) fn over_budget(request_id: Ulid) -> Response<Body> {
    NativeError::from(BudgetExhausted).answer(request_id, false)
}

impl From<InvalidRequest> for NativeError {
    fn from(invalid: InvalidRequest) -> Self {
        Self {
            field: invalid.field,
            ..Self::new(invalid.code, invalid.detail)
        }
    }
}

impl From<InvalidValue> for NativeError {
    fn from(invalid: InvalidValue) -> Self {
        InvalidRequest::from(invalid).into()
    }
}

impl From<EngineError> for NativeError {
    fn from(error: EngineError) -> Self {
        let (code, applied) = match error {
            EngineError::BacklogFull
            | EngineError::Unchecked
            | EngineError::PoolMoves
            | EngineError::StorageRefused => (ProblemCode::StorageUnavailable, Some(Applied::No)),
            EngineError::QueueClosed => (ProblemCode::QueueClosed, None),
            EngineError::QueueFull => (ProblemCode::QueueFull, None),
            EngineError::SeveralLanes => return Self::of(ProblemCode::KeysInSeveralLanes),
            EngineError::KeysUnsettled(_) => (ProblemCode::LanesUnsettled, None),
            EngineError::KeyTaken => return Self::of(ProblemCode::KeyTaken),
            EngineError::KeyReused => return Self::of(ProblemCode::IdempotencyKeyReused),
            EngineError::JobRefused { index, refusal } => {
                let refused = Self::from(EngineError::from(refusal));
                return refused.at(format!("jobs[{index}]"));
            }
            EngineError::NamespaceFull(full) => {
                return Self::new(ProblemCode::NamespaceFull, full.to_string());
            }
            EngineError::TooManyWaiting
            | EngineError::TooManyWaitingInNamespace(_)
            | EngineError::TooManyWaitingWithToken => (ProblemCode::TooManyWaiting, None),
            EngineError::PublishesLimited { retry_ms, .. } => {
                let remedy = match retry_ms {
                    Some(_) => "Repeat the request after `Retry-After`",
                    None => "The request has more: send fewer jobs in a request",
                };
                return Self {
                    retry_seconds: retry_ms.unwrap_or_default().div_ceil(1000).max(1),
                    ..Self::new(ProblemCode::RateLimited, format!("{error}. {remedy}"))
                };
            }
            EngineError::RateLimited => (ProblemCode::RateLimited, None),
            EngineError::StorageFull => (ProblemCode::StorageFull, None),
            EngineError::PayloadUnavailable => (ProblemCode::PayloadUnavailable, None),
            EngineError::DiskUnconfirmed => {
                let refused = Self::new(ProblemCode::InvalidParameter, error.to_string());
                return refused.at("durability");
            }
            EngineError::MoveUnknown | EngineError::StorageFailed => {
                (ProblemCode::StorageUnavailable, None)
            }
        };
        let problem = Self::new(code, format!("{error}. {}", code.info().description));
        Self {
            applied: applied.or(problem.applied),
            ..problem
        }
    }
}

impl From<StoreError> for NativeError {
    fn from(error: StoreError) -> Self {
        EngineError::from(error).into()
    }
}

impl From<VersionMismatch> for NativeError {
    fn from(_: VersionMismatch) -> Self {
        Self::of(ProblemCode::VersionMismatch)
    }
}

impl From<AccessError> for NativeError {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::KeyMissing => Self::of(ProblemCode::KeyMissing),
            AccessError::KeyInvalid => Self::of(ProblemCode::KeyInvalid),
            AccessError::ScopeMissing(scope) => {
                let detail = format!("the API key needs the scope {} for this", scope.name());
                Self::new(ProblemCode::ScopeMissing, detail)
            }
            AccessError::NamespaceForbidden => Self::of(ProblemCode::NamespaceForbidden),
            AccessError::Failed(error) => error.into(),
        }
    }
}

impl From<BodyError> for NativeError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self::of(ProblemCode::BodyTooLarge),
            BodyError::TooSlow => Self::of(ProblemCode::RequestTimeout),
            BodyError::Broken => Self::new(
                ProblemCode::InvalidBody,
                "the body breaks off, or its chunks are malformed",
            ),
            BodyError::OverBudget => Self {
                applied: Some(Applied::No),
                ..Self::new(
                    ProblemCode::StorageUnavailable,
                    "the bodies of other requests take all memory for bodies; repeat the request",
                )
            },
        }
    }
}

impl From<BudgetExhausted> for NativeError {
    fn from(_: BudgetExhausted) -> Self {
        Self {
            applied: Some(Applied::No),
            ..Self::new(
                ProblemCode::StorageUnavailable,
                "answers that clients have not read take all memory for answers; repeat the request",
            )
        }
    }
}

impl From<TookTooLong> for NativeError {
    fn from(_: TookTooLong) -> Self {
        Self::of(ProblemCode::TimeLimitReached)
    }
}

impl From<Panicked> for NativeError {
    fn from(_: Panicked) -> Self {
        Self::of(ProblemCode::InternalError)
    }
}
