//! `GET /v1/NAMESPACE/workers`: which workers there are, and which jobs they hold.

use axum::body::Body;
use axum::http::Response;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use tidegate_core::v1::Page;
use tidegate_core::v1::problem::InvalidRequest;
use tidegate_core::v1::queue::ListQuery;
use tidegate_core::v1::values::{CursorText, Timestamp, WorkerNameText};
use tidegate_core::v1::workers::{WorkerJob, WorkerView};
use tidegate_engine::{ListedLease, ListedWorker};

use super::answer::page_answer;
use super::error::NativeError;
use super::native_request::NativeRequest;
use crate::http::unread;

pub(super) async fn list(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let query: ListQuery = request.read_query()?;
    let after = match &query.cursor {
        None => String::new(),
        Some(cursor) => name_of(cursor).ok_or_else(|| {
            InvalidRequest::of_field("cursor", "send the cursor as `next` of the page before")
        })?,
    };
    let share = unread::share_of_page(request.unread())?;
    let (pool, limit) = (request.pool(), usize::from(query.limit.get()));
    let page = pool.workers(request.namespace()?, &after, limit).await?;
    // Names that another version of this program has stored may be invalid.
    let items = page.workers.into_iter().filter_map(view).collect();
    let next = page.next.map(|name| BASE64_URL_SAFE_NO_PAD.encode(name));
    let next = next.map(CursorText::try_from).transpose();
    let next = next.map_err(|_| NativeError::internal())?;
    Ok(page_answer(&Page { items, next }, share))
}

/// The name after which a page begins. Names may have characters that a cursor cannot have.
fn name_of(cursor: &CursorText) -> Option<String> {
    let name = BASE64_URL_SAFE_NO_PAD.decode(cursor.as_str()).ok()?;
    let name: WorkerNameText = String::from_utf8(name).ok()?.try_into().ok()?;
    Some(name.as_str().to_owned())
}

fn view(worker: ListedWorker) -> Option<WorkerView> {
    let queues = worker.queues.iter().filter_map(|queue| queue.parse().ok());
    Some(WorkerView {
        worker: worker.name.parse().ok()?,
        queues: queues.collect(),
        waits: worker.waits,
        seen_at: Timestamp::saturating(worker.seen_at_ms),
        jobs: worker.leases.iter().filter_map(worker_job).collect(),
    })
}

fn worker_job(lease: &ListedLease) -> Option<WorkerJob> {
    Some(WorkerJob {
        id: lease.id,
        queue: lease.queue.parse().ok()?,
        attempt: lease.attempt,
        since: Timestamp::saturating(lease.since_ms),
        lease_until: Timestamp::saturating(lease.until_ms),
    })
}
