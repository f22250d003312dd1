//! `GET /v1/NAMESPACE/queues/QUEUE/jobs/JOB/explain`: why a job is where it is, in one sentence and in facts.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_core::v1::job::JobQuery;

use super::answer::json_answer;
use super::error::NativeError;
use super::explanation;
use super::native_request::{NativeRequest, not_found};

pub(super) async fn explain(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let queue = request.queue()?;
    let query: JobQuery = request.read_query()?;
    let key = query.key.as_ref().map(|key| key.as_str());
    let job = request.job(&queue, key)?;
    let explained = explanation::explain(request.pool(), &queue, job).await?;
    let mut answer = explained.ok_or_else(not_found)?;
    // The key of a job that is done is known only to those who name it.
    answer.key = answer.key.or_else(|| request.job_key(key));
    Ok(json_answer(StatusCode::OK, &answer))
}
