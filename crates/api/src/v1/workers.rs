//! `GET /v1/NAMESPACE/workers`: which workers there are, and which jobs they hold.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_api_types::values::TimestampMs;
use tidegate_api_types::workers::{WorkerJob, WorkerListPage, WorkerView};
use tidegate_core::Scope;
use tidegate_engine::{ListedLease, ListedWorker};

use super::answer::json_answer;
use super::error::NativeError;
use super::native_request::NativeRequest;
use crate::shapes::id_text;

pub(super) async fn list(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.need(Scope::Read)?;
    request.without_query()?;
    let workers = request.pool().workers(&request.namespace).await?;
    // Names that another version of this program has stored may be invalid.
    let items = workers.into_iter().filter_map(view).collect();
    let answer = WorkerListPage { items, next: None };
    Ok(json_answer(StatusCode::OK, &answer))
}

fn view(worker: ListedWorker) -> Option<WorkerView> {
    let queues = worker.queues.iter().filter_map(|queue| queue.parse().ok());
    Some(WorkerView {
        worker: worker.name.parse().ok()?,
        queues: queues.collect(),
        waits: worker.waits,
        seen_at: TimestampMs::saturating(worker.seen_at_ms),
        jobs: worker.leases.iter().filter_map(worker_job).collect(),
    })
}

fn worker_job(lease: &ListedLease) -> Option<WorkerJob> {
    Some(WorkerJob {
        id: id_text(lease.id),
        queue: lease.queue.parse().ok()?,
        attempt: lease.attempt,
        since: TimestampMs::saturating(lease.since_ms),
        lease_until: TimestampMs::saturating(lease.until_ms),
    })
}
