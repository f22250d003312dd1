//! Reads jobs without consuming them.
//!
//! * `GET /api/NAMESPACE/QUEUE/peek`: the next ready job; in a queue with several lanes, the next ready job of the
//!   first lane that has one.
//! * `GET /api/NAMESPACE/QUEUE/job/ID`: one job, whatever its state.
//! * `GET /api/NAMESPACE/QUEUE/deadletter`: the oldest dead job, and how many there are.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde::Serialize;
use tidegate_core::JobState;
use tidegate_store::JobReference;

use super::error::ApiError;
use super::job_id::WireJobId;
use super::job_view::JobView;
use super::scope::QueueScope;
use crate::app::App;
use crate::http::json;
use crate::http::off_runtime::off_runtime;
use crate::http::request::ApiRequest;

pub(super) async fn peek_queue(
    app: Arc<App>,
    api_request: ApiRequest,
) -> Result<Response<Body>, ApiError> {
    let scope = QueueScope::open(&app, &api_request).await?;
    let head = scope.pool.peek_ready(&scope.queue).await?;
    let head = head.ok_or(ApiError::QueueEmpty)?;
    let (bytes, queue) = (head.job.body.len(), scope.queue);
    let tries = scope.pool.attempts_left(&queue, &head.job);
    let show = move || JobView::new(&queue, &head.job, head.now_ms, tries).json();
    let shown = off_runtime(&app.large_bodies, bytes, show).await?;
    Ok(json::with_body(StatusCode::OK, shown.into()))
}

pub(super) async fn peek_job(
    app: Arc<App>,
    api_request: ApiRequest,
) -> Result<Response<Body>, ApiError> {
    let scope = QueueScope::open(&app, &api_request).await?;
    let by_id = scope.job.map(JobReference::from);
    let mut found = None;
    for reference in by_id.into_iter().chain(scope.key.map(JobReference::from)) {
        let peeked = scope.pool.peek_job(&scope.queue, reference).await?;
        found = found.or(peeked.filter(|it| it.job.state != JobState::Done));
        if found.is_some() {
            break;
        }
    }
    let found = found.ok_or(ApiError::JobNotFound)?;
    let (bytes, queue) = (found.job.body.len(), scope.queue);
    // lmstfy shows 0 tries when a job is read by its id.
    let show = move || JobView::new(&queue, &found.job, found.now_ms, 0).json();
    let shown = off_runtime(&app.large_bodies, bytes, show).await?;
    Ok(json::with_body(StatusCode::OK, shown.into()))
}

#[derive(Serialize)]
struct DeadLetterBody<'a> {
    deadletter_head: String,
    deadletter_size: u64,
    namespace: &'a str,
    queue: &'a str,
}

pub(super) async fn peek_dead(
    app: Arc<App>,
    api_request: ApiRequest,
) -> Result<Response<Body>, ApiError> {
    let scope = QueueScope::open(&app, &api_request).await?;
    let pool = &scope.pool;
    let (stats, head) = tokio::try_join!(pool.stats(&scope.queue), pool.peek_dead(&scope.queue))?;
    let head = head.map(|head| WireJobId {
        id: head.job.id,
        versioned: head.job.mark,
    });
    let shown = DeadLetterBody {
        deadletter_head: head.map(|id| id.to_string()).unwrap_or_default(),
        deadletter_size: stats.dead,
        namespace: scope.queue.namespace.as_str(),
        queue: scope.queue.queue.as_str(),
    };
    Ok(json::answer(StatusCode::OK, &shown))
}
