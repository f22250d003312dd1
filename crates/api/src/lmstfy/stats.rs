//! The numbers of jobs. No token is required, as in lmstfy.
//!
//! * `GET /api/NAMESPACE/QUEUE/size`: the number of ready jobs.
//! * `GET /api/NAMESPACE/QUEUE/deadletter/size`: the number of dead jobs.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde::Serialize;
use tidegate_core::QueueKey;

use super::error::ApiError;
use super::scope::QueueScope;
use crate::app::App;
use crate::http::json;
use crate::http::request::ApiRequest;

#[derive(Serialize)]
struct QueueSizeBody<'a> {
    namespace: &'a str,
    queue: &'a str,
    size: u64,
}

pub(super) async fn ready(
    app: Arc<App>,
    api_request: ApiRequest,
) -> Result<Response<Body>, ApiError> {
    let scope = QueueScope::open_to_all(&app, &api_request)?;
    let stats = scope.pool.stats(&scope.queue).await?;
    Ok(size(&scope.queue, stats.ready))
}

pub(super) async fn dead(
    app: Arc<App>,
    api_request: ApiRequest,
) -> Result<Response<Body>, ApiError> {
    let scope = QueueScope::open_to_all(&app, &api_request)?;
    let stats = scope.pool.stats(&scope.queue).await?;
    Ok(size(&scope.queue, stats.dead))
}

fn size(queue: &QueueKey, size: u64) -> Response<Body> {
    let size = QueueSizeBody {
        namespace: queue.namespace.as_str(),
        queue: queue.queue.as_str(),
        size,
    };
    json::answer(StatusCode::OK, &size)
}
