//! `DELETE /api/NAMESPACE/QUEUE/job/ID`: the job is done, or no longer wanted, whatever its state.

use axum::http::StatusCode;

use super::error::Refusal;
use super::scope::QueueScope;

pub(super) async fn ack(scope: QueueScope) -> Result<StatusCode, Refusal> {
    if let Some(job) = scope.job {
        scope.pool.ack(&scope.queue, job.id).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}
