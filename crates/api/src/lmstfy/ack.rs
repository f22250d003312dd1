//! `DELETE /api/NAMESPACE/QUEUE/job/ID`: acknowledges or deletes a job, whatever its state. An unknown id is answered
//! 204 as well.

use std::sync::Arc;

use axum::http::StatusCode;

use super::error::ApiError;
use super::scope::QueueScope;
use crate::app::App;
use crate::http::request::ApiRequest;

pub(super) async fn ack(app: Arc<App>, api_request: ApiRequest) -> Result<StatusCode, ApiError> {
    let scope = QueueScope::open(&app, &api_request).await?;
    let is_gone = match scope.job {
        Some(job) => !scope.pool.ack(&scope.queue, job).await?,
        None => true,
    };
    if is_gone {
        scope.delete_by_key(&app, &api_request.head).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}
