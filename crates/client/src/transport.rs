//! Requests and answers over HTTP.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tidegate_core::v1::consume::{ReserveBody, SettleCall};
use tidegate_core::v1::problem::{Applied, Problem};
use tidegate_http_pool::{Connections, RequestError, Resend, retry_after};

use crate::error::{Error, Rejection, RepeatSafety};
use crate::repeat::RepeatLimits;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TRACE_PARENT: &str = "traceparent";
/// How much of an unexpected answer an error shows.
const SHOWN_BYTES: usize = 200;
/// The least time between two warnings of requests that are repeated.
const WARNING_INTERVAL: Duration = Duration::from_secs(30);
const MIB: usize = 1 << 20;
/// The largest answer that is read: a page of 1,000 jobs with all their attributes and errors has less.
const ANSWER_BYTES_MAX: usize = 128 * MIB;
/// The largest answer to a reserve: a server sends up to 256 MiB of payloads, which Base64 makes longer by a third.
const RESERVE_BYTES_MAX: usize = 512 * MIB;
/// The largest job: a payload of 8 MiB in Base64, and its attributes.
const RESERVED_JOB_BYTES_MAX: usize = 12 * MIB;

/// A request; the path follows the namespace.
#[derive(Debug)]
pub(crate) struct HttpCall {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// How long the server may wait before it answers.
    pub(crate) wait: Duration,
    /// The largest answer that is read.
    answer_bytes_max: usize,
}

impl HttpCall {
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            wait: Duration::ZERO,
            answer_bytes_max: ANSWER_BYTES_MAX,
        }
    }

    /// A request for jobs.
    pub(crate) fn reserve(body: &ReserveBody) -> Result<Self, Error> {
        let wait = Duration::from_millis(body.wait.as_ms());
        let mut call = Self::json(Method::POST, "/reserve", body)?.waiting(wait);
        let bytes = usize::from(body.max_jobs.get()) * RESERVED_JOB_BYTES_MAX;
        call.answer_bytes_max = bytes.clamp(ANSWER_BYTES_MAX, RESERVE_BYTES_MAX);
        Ok(call)
    }

    /// A request about leases.
    pub(crate) fn settle(call: SettleCall, body: &impl serde::Serialize) -> Result<Self, Error> {
        Self::json(Method::POST, format!("/{}", call.name()), body)
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// A request with a body of JSON.
    pub(crate) fn json(
        method: Method,
        path: impl Into<String>,
        body: &impl serde::Serialize,
    ) -> Result<Self, Error> {
        let body = serde_json::to_vec(body).map_err(Error::Encode)?;
        let mut call = Self::new(method, path);
        call.headers.insert(CONTENT_TYPE, JSON);
        call.body = body.into();
        Ok(call)
    }

    /// Sets the span of the caller, which the server continues if it has a collector.
    pub(crate) fn set_trace_parent(&mut self, trace_parent: Option<&str>) {
        let value = trace_parent.and_then(|text| HeaderValue::from_str(text).ok());
        if let Some(value) = value {
            self.headers.insert(TRACE_PARENT, value);
        }
    }

    pub(crate) fn waiting(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

/// A success.
#[derive(Debug)]
pub(crate) struct HttpReply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl HttpReply {
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Error::decode("the answer of the server", error))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Connections to a server, kept open between requests.
#[derive(Debug)]
pub(crate) struct HttpTransport {
    connections: Connections,
    /// The URL up to the namespace.
    base: String,
    authorization: Option<HeaderValue>,
    pub(crate) limits: RepeatLimits,
    pub(crate) time_limit: Duration,
    /// When a repetition was logged as a warning.
    warned_at: Mutex<Option<Instant>>,
}

/// Whether the error of the last repetition says that nothing was changed, which is not known of those before it. A 404
/// does not: that something is not there is so however it came about.
fn hides_lost_answer(call: &HttpCall, last: &Error) -> bool {
    call.method != Method::GET && last.applied() == Applied::No && last.status() != Some(404)
}

impl HttpTransport {
    pub(crate) fn new(
        base: String,
        authorization: Option<HeaderValue>,
        limits: RepeatLimits,
        time_limit: Duration,
    ) -> Result<Self, Error> {
        Ok(Self {
            connections: Connections::new(&base).map_err(|error| Error::Setup(error.into()))?,
            base,
            authorization,
            limits,
            time_limit,
            warned_at: Mutex::new(None),
        })
    }

    /// Sends a request, and repeats it after errors as the safety allows.
    pub(crate) async fn send_repeated(
        &self,
        call: &HttpCall,
        safety: RepeatSafety,
    ) -> Result<HttpReply, Error> {
        let mut delays = self.limits.delays();
        let mut first_lost = None;
        loop {
            let error = match self.send(call, safety).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let delay = match error.is_repeated(safety) {
                true => delays.next_after(&error),
                false => None,
            };
            let Some(delay) = delay else {
                let Some(lost) = first_lost.filter(|_| hides_lost_answer(call, &error)) else {
                    return Err(error);
                };
                tracing::warn!(%error, "the last repetition failed; an answer before it was lost");
                return Err(lost);
            };
            self.report_repetition(call, &error, delay);
            if error.applied() == Applied::Unknown {
                first_lost.get_or_insert(error);
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// Warns seldom: an outage lets thousands of requests fail, several times each.
    fn report_repetition(&self, call: &HttpCall, error: &Error, delay: Duration) {
        let now = Instant::now();
        let is_due = {
            let mut warned_at = self.warned_at.lock();
            let is_due = warned_at.is_none_or(|at| now - at >= WARNING_INTERVAL);
            if is_due {
                *warned_at = Some(now);
            }
            is_due
        };
        match is_due {
            true => tracing::warn!(path = call.path, "request failed: {error}; retrying"),
            false => tracing::debug!(
                path = call.path,
                "request failed: {error}; repeating it in {delay:?}"
            ),
        }
    }

    /// Sends a request once. Answers other than a success are errors.
    pub(crate) async fn send(
        &self,
        call: &HttpCall,
        safety: RepeatSafety,
    ) -> Result<HttpReply, Error> {
        let reply = self.exchange(call, safety).await?;
        if reply.status.is_success() {
            return Ok(reply);
        }
        Err(rejection(&reply))
    }

    async fn exchange(&self, call: &HttpCall, safety: RepeatSafety) -> Result<HttpReply, Error> {
        let limit = self.time_limit.saturating_add(call.wait);
        let resend = match safety {
            RepeatSafety::Repeatable => Resend::Allowed,
            RepeatSafety::OnlyIfNotApplied => Resend::Forbidden,
        };
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}", self.base, call.path))
            .body(Full::new(call.body.clone()))
            .map_err(|error| Error::Setup(format!("the request cannot be sent: {error}")))?;
        *request.headers_mut() = call.headers.clone();
        if let Some(authorization) = &self.authorization {
            request
                .headers_mut()
                .insert(AUTHORIZATION, authorization.clone());
        }
        let exchange = self
            .connections
            .exchange(request, resend, limit, call.answer_bytes_max);
        let (head, body) = exchange.await?.into_parts();
        Ok(HttpReply {
            status: head.status,
            headers: head.headers,
            body,
        })
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::NotConnected(cause) => Self::NotConnected(cause.into()),
            RequestError::ConnectionBroken(cause) => Self::ConnectionBroken(cause.into()),
            RequestError::TimedOut(limit) => Self::NoAnswer(limit),
            RequestError::TooLarge { status, bytes_max } => Self::UnexpectedAnswer {
                status,
                text: format!("it has more than {} MiB", bytes_max / MIB),
                applied: None,
                retry_after: None,
            },
        }
    }
}

fn rejection(reply: &HttpReply) -> Error {
    let retry_after = retry_after(&reply.headers);
    match serde_json::from_slice::<Problem>(&reply.body) {
        Ok(problem) => Error::Rejected(Box::new(Rejection {
            problem,
            retry_after,
        })),
        Err(_) => unexpected_answer(reply, retry_after),
    }
}

/// The fields of a problem document whose code this version does not know.
#[derive(Deserialize)]
struct LaterProblem {
    detail: String,
    applied: Option<Applied>,
}

fn unexpected_answer(reply: &HttpReply, retry_after: Option<Duration>) -> Error {
    let beginning = &reply.body[..reply.body.len().min(SHOWN_BYTES)];
    let later: Option<LaterProblem> = serde_json::from_slice(&reply.body).ok();
    let (text, applied) = match later {
        Some(problem) => (problem.detail, problem.applied),
        None => (String::from_utf8_lossy(beginning).into_owned(), None),
    };
    Error::UnexpectedAnswer {
        status: reply.status.as_u16(),
        text,
        applied,
        retry_after,
    }
}
