//! How many jobs there are. Open to everyone, as the wire has it.
//!
//! * `GET /api/NAMESPACE/QUEUE/size`: jobs that could be consumed now.
//! * `GET /api/NAMESPACE/QUEUE/deadletter/size`: jobs whose tries are used up.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde::Serialize;
use tidegate_core::QueueKey;

use super::error::Refusal;
use super::json;
use super::request::Asked;
use super::scope::OpenScope;
use crate::app::App;

#[derive(Serialize)]
struct Size<'a> {
    namespace: &'a str,
    queue: &'a str,
    size: u64,
}

pub(super) async fn ready(app: Arc<App>, asked: Asked) -> Result<Response<Body>, Refusal> {
    let scope = OpenScope::open(&app, &asked)?;
    let stats = scope.pool.stats(&scope.queue).await?;
    Ok(size(&scope.queue, stats.ready))
}

pub(super) async fn dead(app: Arc<App>, asked: Asked) -> Result<Response<Body>, Refusal> {
    let scope = OpenScope::open(&app, &asked)?;
    let stats = scope.pool.stats(&scope.queue).await?;
    Ok(size(&scope.queue, stats.dead))
}

fn size(queue: &QueueKey, size: u64) -> Response<Body> {
    let size = Size {
        namespace: queue.namespace.as_str(),
        queue: queue.queue.as_str(),
        size,
    };
    json::answer(StatusCode::OK, &size)
}
