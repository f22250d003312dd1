//! Deletes many jobs.
//!
//! * `DELETE /api/NAMESPACE/QUEUE`: all ready jobs.
//! * `DELETE /api/NAMESPACE/QUEUE/deadletter`: up to `limit` dead jobs, 1 by default, the oldest of each lane first.

use std::sync::Arc;

use axum::http::StatusCode;

use super::error::ApiError;
use super::respawn::limit;
use super::scope::QueueScope;
use crate::app::App;
use crate::http::request::ApiRequest;

pub(super) async fn purge_ready(
    app: Arc<App>,
    api_request: ApiRequest,
) -> Result<StatusCode, ApiError> {
    let scope = QueueScope::open(&app, &api_request).await?;
    scope.pool.purge_ready(&scope.queue).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn purge_dead(
    app: Arc<App>,
    api_request: ApiRequest,
) -> Result<StatusCode, ApiError> {
    let scope = QueueScope::open(&app, &api_request).await?;
    let limit = limit(&api_request.query())?;
    scope.pool.purge_dead(&scope.queue, limit).await?;
    Ok(StatusCode::NO_CONTENT)
}
