//! `/v1/NAMESPACE/lanes`: the queues with more than one lane. `/v1/NAMESPACE/queues/QUEUE/lanes`: the lanes of a queue.
//!
//! A pool that moves has its own lanes; its new jobs go to lanes of the target pool.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_core::v1::Page;
use tidegate_core::v1::problem::InvalidRequest;
use tidegate_core::v1::queue::{ListQuery, QueueLanes, SetLanesBody};
use tidegate_core::{LaneCounts, QueueKey};
use tidegate_engine::EngineError;

use super::answer::{json_answer, page_answer, page_with_cursor};
use super::error::NativeError;
use super::native_request::NativeRequest;
use crate::http::unread;

pub(super) async fn list(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let query: ListQuery = request.read_query()?;
    let after = query.queue_cursor()?;
    let share = unread::share_of_page(request.unread())?;
    let table = request.pool().lanes.read().await;
    let table = table.map_err(EngineError::from)?;
    let rows = table.by_queue.iter();
    let mut rows: Vec<_> = rows
        // While keys are not settled, a queue with one lane has a row.
        .filter(|(_, row)| row.counts != LaneCounts::ONE)
        .filter(|(queue, _)| request.namespaces.contains(&queue.namespace))
        .filter(|(queue, _)| after.as_ref().is_none_or(|after| *queue > after))
        .collect();
    rows.sort();
    let rows = rows.into_iter();
    let rows = rows.map(|(queue, row)| queue_lanes(queue.clone(), row.counts));
    let limit = usize::from(query.limit.get());
    let (items, next) = page_with_cursor(rows, limit, |last| {
        format!("{}/{}", last.namespace, last.queue)
    })?;
    Ok(page_answer(&Page { items, next }, share))
}

pub(super) async fn show(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let queue = request.queue()?;
    let table = request.pool().lanes.read().await;
    let counts = table.map_err(EngineError::from)?.row(&queue).counts;
    Ok(json_answer(StatusCode::OK, &queue_lanes(queue, counts)))
}

pub(super) async fn set(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let queue = request.queue()?;
    let SetLanesBody { open } = request.read_json().await?;
    let lanes = &request.pool().lanes;
    let lanes_max = lanes.lanes_max();
    if !(1..=lanes_max).contains(&open) {
        let detail = format!("a queue of this pool has 1 to {lanes_max} lanes");
        return Err(InvalidRequest::of_field("open", detail).into());
    }
    let counts = lanes.set(&queue, open).await.map_err(EngineError::from)?;
    tracing::info!(%queue, open = counts.open, used = counts.used, "set the number of lanes");
    Ok(json_answer(StatusCode::OK, &queue_lanes(queue, counts)))
}

fn queue_lanes(queue: QueueKey, counts: LaneCounts) -> QueueLanes {
    QueueLanes {
        namespace: queue.namespace,
        queue: queue.queue,
        open: counts.open,
        used: counts.used,
    }
}
