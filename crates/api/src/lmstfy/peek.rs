//! Looking at jobs without taking them.
//!
//! * `GET /api/NAMESPACE/QUEUE/peek`: the job that is consumed next.
//! * `GET /api/NAMESPACE/QUEUE/job/ID`: one job, whatever its state.
//! * `GET /api/NAMESPACE/QUEUE/deadletter`: the oldest dead job, and how many there are.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde::Serialize;

use super::error::Refusal;
use super::job_id::WireJobId;
use super::json;
use super::large::off_runtime;
use super::request::Asked;
use super::scope::QueueScope;
use super::shown_job::ShownJob;
use crate::app::App;

pub(super) async fn peek_queue(app: Arc<App>, asked: Asked) -> Result<Response<Body>, Refusal> {
    let scope = QueueScope::open(&app, &asked).await?;
    let head = scope.pool.peek_ready(&scope.queue).await?;
    let head = head.ok_or(Refusal::QueueEmpty)?;
    let (bytes, queue) = (head.job.body.len(), scope.queue);
    let show = move || json::line(&ShownJob::new(&queue, &head.job, head.now_ms));
    let shown = off_runtime(&app.large_bodies, bytes, show).await?;
    Ok(json::with_body(StatusCode::OK, shown.into()))
}

pub(super) async fn peek_job(app: Arc<App>, asked: Asked) -> Result<Response<Body>, Refusal> {
    let scope = QueueScope::open(&app, &asked).await?;
    let asked = scope.job.ok_or(Refusal::JobNotFound)?;
    let found = scope.pool.peek_job(&scope.queue, asked.id).await?;
    let found = found.ok_or(Refusal::JobNotFound)?;
    let (bytes, queue) = (found.job.body.len(), scope.queue);
    let show = move || json::line(&ShownJob::new(&queue, &found.job, found.now_ms).without_tries());
    let shown = off_runtime(&app.large_bodies, bytes, show).await?;
    Ok(json::with_body(StatusCode::OK, shown.into()))
}

#[derive(Serialize)]
struct DeadLetter<'a> {
    deadletter_head: String,
    deadletter_size: u64,
    namespace: &'a str,
    queue: &'a str,
}

pub(super) async fn peek_dead(app: Arc<App>, asked: Asked) -> Result<Response<Body>, Refusal> {
    let scope = QueueScope::open(&app, &asked).await?;
    let pool = &scope.pool;
    let (stats, head) = tokio::try_join!(pool.stats(&scope.queue), pool.peek_dead(&scope.queue))?;
    let head = head.map(|head| WireJobId {
        id: head.job.id,
        versioned: head.job.versioned_id,
    });
    let shown = DeadLetter {
        deadletter_head: head.map(|id| id.to_string()).unwrap_or_default(),
        deadletter_size: stats.dead,
        namespace: scope.queue.namespace.as_str(),
        queue: scope.queue.queue.as_str(),
    };
    Ok(json::answer(StatusCode::OK, &shown))
}
