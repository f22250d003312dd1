//! `PUT /api/NAMESPACE/QUEUE`: stores one job.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;

use super::attributes::JobHeaders;
use super::error::ApiError;
use super::job_id::WireJobId;
use super::publish_answer::{self, StoredIds};
use super::publish_params::PublishParams;
use super::scope::PublishScope;
use crate::app::App;
use crate::http::body::BodyError;
use crate::http::request::ApiRequest;
use crate::spans::PublishSpan;

pub(super) async fn publish(
    app: Arc<App>,
    api_request: ApiRequest,
) -> Result<Response<Body>, ApiError> {
    let scope = PublishScope::open(&app, &api_request).await?;
    publish_one(&app, scope, api_request).await
}

/// Stores one job, and deletes the job in the path, if there is one. A success uses up the unit of the rate limit.
pub(super) async fn publish_one(
    app: &App,
    scope: PublishScope,
    api_request: ApiRequest,
) -> Result<Response<Body>, ApiError> {
    let params = PublishParams::read(&api_request.query(), &app.job_defaults())?;
    let ApiRequest {
        head,
        body,
        context,
        ..
    } = api_request;
    // Its share is held until the answer, as the body is in memory until then.
    let body = app.job_body.read(body).await?;
    let mut job = params.job(body.bytes, &JobHeaders::read(&head.headers)?);
    let span = PublishSpan::begin(app, &head.headers, &context);
    // An id of this server is the key of no drained job.
    let is_foreign = scope.queue.key.is_some() && scope.queue.job.is_none();
    let replaced = is_foreign.then_some(head);
    let versioned = job.mark;
    if let Some(span) = &span {
        span.add_to(&mut job);
    }
    let published = scope.publish(app, vec![job], scope.queue.job).await;
    if let Some(span) = span {
        scope.end_span(span, 1, &published);
    }
    let published = published?;
    if let (Some(head), Ok(_)) = (replaced, &published.durability) {
        Box::pin(scope.queue.delete_by_key(app, &head)).await?;
    }
    let id = published.first()?.id;
    let id = StoredIds::JobId(WireJobId { id, versioned });
    let answer = publish_answer::answer(published.durability, id)?;
    scope.permit.keep();
    Ok(answer)
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self::BodyTooLarge,
            BodyError::TooSlow | BodyError::Broken => Self::BodyUnreadable,
            BodyError::OverBudget => Self::BodiesFull,
        }
    }
}
