//! `DELETE /api/NAMESPACE/QUEUE/job/ID`: the job is done, or no longer wanted, whatever its state.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;

use super::error::Refusal;
use super::json;
use super::request::Asked;
use super::scope::QueueScope;
use crate::app::App;

pub(super) async fn ack(app: Arc<App>, asked: Asked) -> Result<Response<Body>, Refusal> {
    let scope = QueueScope::open(&app, &asked).await?;
    drop(asked);
    if let Some(job) = scope.job {
        scope.pool.ack(&scope.queue, job.id).await?;
    }
    Ok(json::no_content())
}
