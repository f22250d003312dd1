//! `/v1/NAMESPACE/queues`: lists queues. `/v1/NAMESPACE/queues/QUEUE`: shows a queue, deletes its jobs or the queue,
//! and brings its dead jobs back.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_core::v1::problem::{InvalidRequest, ProblemCode};
use tidegate_core::v1::queue::{
    ListQuery, PurgeAnswer, PurgeBody, PurgeOutcome, PurgeState, QueueView, Respawn, RespawnAnswer,
    RespawnOutcome,
};
use tidegate_core::v1::{DeleteAnswer, Page};
use tidegate_core::{JobsByState, QueueKey};
use tidegate_engine::{DeleteQueueOutcome, Pool, QueueCursor};
use tidegate_store::DueTimes;

use super::answer::{json_answer, page_answer};
use super::error::NativeError;
use super::native_request::NativeRequest;
use crate::http::unread;

pub(super) async fn list(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let query: ListQuery = request.read_query()?;
    let from = match &query.cursor {
        None => QueueCursor::default(),
        Some(cursor) => cursor.as_str().parse().map_err(|_| {
            InvalidRequest::of_field("cursor", "send the cursor as `next` of the page before")
        })?,
    };
    let share = unread::share_of_page(request.unread())?;
    let limit = usize::from(query.limit.get());
    let listing = request
        .pool()
        .list_queues(request.namespace()?, from, limit);
    let listing = listing.await?;
    let namespace = request.namespace()?;
    let views = listing.queues.iter().map(|(name, stats)| {
        let queue = QueueKey {
            namespace: namespace.clone(),
            queue: name.clone(),
        };
        queue_view(request.pool(), &queue, *stats)
    });
    let next = listing.next.map(|next| next.to_string().try_into());
    let answer = Page {
        items: views.collect(),
        next: next.transpose().map_err(|_| NativeError::internal())?,
    };
    Ok(page_answer(&answer, share))
}

pub(super) async fn show(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let queue = request.queue()?;
    let stats = request.pool().stats(&queue).await?;
    Ok(json_answer(
        StatusCode::OK,
        &queue_view(request.pool(), &queue, stats),
    ))
}

pub(super) async fn delete(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let queue = request.queue()?;
    match request.pool().delete_queue(&queue).await? {
        DeleteQueueOutcome::NotEmpty => Err(NativeError::of(ProblemCode::QueueNotEmpty)),
        DeleteQueueOutcome::Deleted => Ok(json_answer(StatusCode::OK, &DeleteAnswer::Deleted)),
    }
}

pub(super) async fn respawn(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let queue = request.queue()?;
    let body: Respawn = request.read_json().await?;
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

fn queue_view(pool: &Pool, queue: &QueueKey, jobs: JobsByState) -> QueueView {
    let policy = pool.policy(queue);
    QueueView {
        queue: queue.queue.clone(),
        jobs,
        paused: pool.is_paused(queue),
        paused_until: policy.paused_until,
        closed: policy.closed,
    }
}
