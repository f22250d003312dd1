//! The answer to a publish whose jobs are stored, and how safe they are.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use serde::Serialize;
use tidegate_store::{Durability, NotDurable};

use super::error::Refusal;
use super::job_id::WireJobId;
use super::json;

/// What is certain about the jobs of a publish that asked for more than memory.
const DURABILITY: HeaderName = HeaderName::from_static("x-durability");

/// The ids of stored jobs, as their route answers them.
#[derive(Debug, Clone, Copy)]
pub(super) enum StoredIds<'a> {
    /// Of a route that stores one job.
    One(WireJobId),
    /// Of a route that stores several.
    Many(&'a [WireJobId]),
}

/// Jobs that are stored, but not known to be as safe as asked. Some who hear of an error publish again; those who
/// want to know what they would double find it here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct LessDurable {
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<WireJobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_ids: Option<Vec<WireJobId>>,
    #[serde(skip)]
    reached: Durability,
}

/// `published` with 201, or the refusal that names the jobs all the same. Where nothing was asked for the answer
/// is as it ever was.
pub(super) fn answer(
    durability: Result<Durability, NotDurable>,
    ids: StoredIds<'_>,
    published: &impl Serialize,
) -> Result<Response<Body>, Refusal> {
    match durability {
        Ok(reached) if reached.is_memory() => Ok(json::answer(StatusCode::CREATED, published)),
        Ok(reached) => Ok(told(json::answer(StatusCode::CREATED, published), reached)),
        Err(missed) => Err(Refusal::LessDurable(LessDurable::new(&missed, ids).into())),
    }
}

impl LessDurable {
    fn new(missed: &NotDurable, ids: StoredIds<'_>) -> Self {
        tracing::debug!(%missed, "jobs are stored, but not as durable as asked for");
        let (wanted, reached) = (missed.wanted, missed.reached);
        let (job_id, job_ids) = match ids {
            StoredIds::One(id) => (Some(id), None),
            StoredIds::Many(ids) => (None, Some(ids.to_vec())),
        };
        Self {
            error: format!("stored, but {wanted} was not confirmed in time, only {reached}"),
            job_id,
            job_ids,
            reached,
        }
    }

    pub(super) fn answer(&self, status: StatusCode) -> Response<Body> {
        told(json::answer(status, self), self.reached)
    }
}

fn told(mut response: Response<Body>, reached: Durability) -> Response<Body> {
    if let Ok(value) = HeaderValue::from_str(&reached.to_string()) {
        response.headers_mut().insert(DURABILITY, value);
    }
    response
}
