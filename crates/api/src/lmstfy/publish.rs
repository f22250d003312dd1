//! `PUT /api/NAMESPACE/QUEUE`: stores one job.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Serialize;
use tidegate_core::JobId;

use super::attributes::Extras;
use super::error::Refusal;
use super::job_id::WireJobId;
use super::json;
use super::query::Query;
use super::scope::{PublishScope, QueueScope};
use super::terms::Terms;
use crate::app::App;
use crate::body::BodyError;

#[derive(Serialize)]
struct Published {
    job_id: WireJobId,
    msg: &'static str,
}

pub(super) async fn publish(
    State(app): State<Arc<App>>,
    scope: PublishScope,
    query: Query,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, Refusal> {
    let published = publish_one(&app, &scope.queue, &query, &headers, body, None).await?;
    scope.permit.keep();
    Ok(published)
}

/// Stores one job, in the place of another if `replaces` says so.
pub(super) async fn publish_one(
    app: &App,
    scope: &QueueScope,
    query: &Query,
    headers: &HeaderMap,
    body: Body,
    replaces: Option<JobId>,
) -> Result<Response<Body>, Refusal> {
    let terms = Terms::read(query, &app.job_defaults())?;
    let body = app.job_body.read(body).await?;
    let job = terms.job(body, &Extras::read(headers)?);
    let versioned = job.versioned_id;
    let ids = scope
        .pool
        .publish(&scope.queue, vec![job], replaces)
        .await?;
    let id = *ids.first().ok_or(Refusal::Internal)?;
    let published = Published {
        job_id: WireJobId { id, versioned },
        msg: "published",
    };
    Ok(json::answer(StatusCode::CREATED, &published))
}

impl From<BodyError> for Refusal {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self::BodyTooLarge,
            BodyError::Unreadable => Self::BodyUnreadable,
        }
    }
}
