//! Deleting many jobs.
//!
//! * `DELETE /api/NAMESPACE/QUEUE`: everything that is ready.
//! * `DELETE /api/NAMESPACE/QUEUE/deadletter`: the oldest dead jobs.

use axum::http::StatusCode;

use super::error::Refusal;
use super::query::Query;
use super::respawn::limit;
use super::scope::QueueScope;

pub(super) async fn purge_ready(scope: QueueScope) -> Result<StatusCode, Refusal> {
    scope.pool.purge_ready(&scope.queue).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn purge_dead(scope: QueueScope, query: Query) -> Result<StatusCode, Refusal> {
    let limit = limit(&query)?;
    scope.pool.purge_dead(&scope.queue, limit).await?;
    Ok(StatusCode::NO_CONTENT)
}
