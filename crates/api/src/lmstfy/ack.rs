//! `DELETE /api/NAMESPACE/QUEUE/job/ID`: the job is done, or no longer wanted, whatever its state.

use axum::http::StatusCode;
use tidegate_store::Acked;

use super::error::Refusal;
use super::scope::QueueScope;
use crate::metrics;

pub(super) async fn ack(scope: QueueScope) -> Result<StatusCode, Refusal> {
    if let Some(job) = scope.job {
        let acked = scope.pool.ack(&scope.queue, job.id).await?;
        if let Acked::Done { .. } = acked {
            metrics::acked(&scope.pool.name);
        }
    }
    Ok(StatusCode::NO_CONTENT)
}
