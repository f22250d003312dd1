//! Deleting many jobs.
//!
//! * `DELETE /api/NAMESPACE/QUEUE`: everything that is ready.
//! * `DELETE /api/NAMESPACE/QUEUE/deadletter`: the oldest dead jobs.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;

use super::error::Refusal;
use super::json;
use super::request::Asked;
use super::respawn::limit;
use super::scope::QueueScope;
use crate::app::App;

pub(super) async fn purge_ready(app: Arc<App>, asked: Asked) -> Result<Response<Body>, Refusal> {
    let scope = QueueScope::open(&app, &asked).await?;
    scope.pool.purge_ready(&scope.queue).await?;
    Ok(json::no_content())
}

pub(super) async fn purge_dead(app: Arc<App>, asked: Asked) -> Result<Response<Body>, Refusal> {
    let scope = QueueScope::open(&app, &asked).await?;
    let limit = limit(&asked.query())?;
    scope.pool.purge_dead(&scope.queue, limit).await?;
    Ok(json::no_content())
}
