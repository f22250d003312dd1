//! `/v1/NAMESPACE/queues`: lists queues. `/v1/NAMESPACE/queues/QUEUE`: what a queue holds, deleting its jobs or the queue,
//! and bringing its dead jobs back.

use std::ops::Bound;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_api_types::problem::{InvalidRequest, ProblemCode};
use tidegate_api_types::queue::{
    DeleteQueueResult, DeletedQueue, ListQuery, PurgeAnswer, PurgeBody, PurgeOutcome, PurgeState,
    QueueListPage, RespawnAnswer, RespawnBody, RespawnOutcome,
};
use tidegate_core::{QueueKey, QueueName, Scope};
use tidegate_engine::DeleteQueueOutcome;
use tidegate_store::DueTimes;

use super::answer::{json_answer, page_of};
use super::error::NativeError;
use super::native_request::NativeRequest;
use crate::http::unread;
use crate::shapes::queue_view;

pub(super) async fn list(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.need(Scope::Read)?;
    let query: ListQuery = request.read_query()?;
    let from = match &query.cursor {
        None => Bound::Unbounded,
        Some(last) => Bound::Excluded(QueueName::try_from(last.as_str()).map_err(|_| {
            InvalidRequest::of_field("cursor", "send the cursor as `next` of the page before")
        })?),
    };
    let share = unread::share_of_page(&request.app.exchange.unread)?;
    let queues = request.pool().queues(&request.namespace).await?;
    let behind = queues.range((from, Bound::Unbounded));
    let views = behind.map(|(name, stats)| {
        let queue = QueueKey {
            namespace: request.namespace.clone(),
            queue: name.clone(),
        };
        queue_view(request.pool(), &queue, stats)
    });
    let (items, has_more) = page_of(views, usize::from(query.limit.get()));
    let last = items.last().filter(|_| has_more);
    let next = last.map(|last| last.queue.to_string().try_into());
    let answer = QueueListPage {
        next: next.transpose().map_err(|_| NativeError::internal())?,
        items,
    };
    Ok(unread::with_share(
        json_answer(StatusCode::OK, &answer),
        share,
    ))
}

pub(super) async fn show(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.need(Scope::Read)?;
    request.without_query()?;
    let queue = request.queue()?;
    let stats = request.pool().stats(&queue).await?;
    Ok(json_answer(
        StatusCode::OK,
        &queue_view(request.pool(), &queue, &stats),
    ))
}

pub(super) async fn delete(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.need(Scope::Admin)?;
    request.without_query()?;
    let queue = request.queue()?;
    match request.pool().delete_queue(&queue).await? {
        DeleteQueueOutcome::NotEmpty => Err(NativeError::of(ProblemCode::QueueNotEmpty)),
        DeleteQueueOutcome::Deleted => {
            let outcome = DeleteQueueResult::Deleted;
            Ok(json_answer(StatusCode::OK, &DeletedQueue { outcome }))
        }
    }
}

pub(super) async fn respawn(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.need(Scope::Admin)?;
    request.without_query()?;
    let queue = request.queue()?;
    let body: RespawnBody = request.read_json().await?;
    let space = body
        .rate_per_second
        .map(|rate| Duration::from_secs(1) / rate.get());
    let due = DueTimes {
        first: Duration::ZERO,
        space: space.unwrap_or_default(),
    };
    let limit = body.limit.unwrap_or(u64::MAX);
    let respawned = request.pool().respawn(&queue, limit, 0, due).await?;
    let answer = RespawnAnswer {
        outcome: RespawnOutcome::Respawned,
        respawned,
    };
    Ok(json_answer(StatusCode::OK, &answer))
}

pub(super) async fn purge(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.need(Scope::Admin)?;
    request.without_query()?;
    let queue = request.queue()?;
    let body: PurgeBody = request.read_json().await?;
    let deleted = match body.state {
        PurgeState::Ready => request.pool().purge_ready(&queue).await?,
        PurgeState::Dead => request.pool().purge_dead(&queue, u64::MAX).await?,
    };
    let answer = PurgeAnswer {
        outcome: PurgeOutcome::Purged,
        deleted,
    };
    Ok(json_answer(StatusCode::OK, &answer))
}
