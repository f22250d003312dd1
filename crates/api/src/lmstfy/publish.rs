//! `PUT /api/NAMESPACE/QUEUE`: stores one job.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde::Serialize;
use tidegate_core::JobId;

use super::attributes::Extras;
use super::error::Refusal;
use super::job_id::WireJobId;
use super::json;
use super::request::Asked;
use super::scope::{PublishScope, QueueScope};
use super::terms::Terms;
use crate::app::App;
use crate::body::BodyError;

#[derive(Serialize)]
struct Published {
    job_id: WireJobId,
    msg: &'static str,
}

pub(super) async fn publish(app: Arc<App>, asked: Asked) -> Result<Response<Body>, Refusal> {
    let PublishScope { queue, permit } = PublishScope::open(&app, &asked).await?;
    let published = publish_one(&app, &queue, asked, None).await?;
    permit.keep();
    Ok(published)
}

/// Stores one job, in the place of another if `replaces` says so.
pub(super) async fn publish_one(
    app: &App,
    scope: &QueueScope,
    asked: Asked,
    replaces: Option<JobId>,
) -> Result<Response<Body>, Refusal> {
    let terms = Terms::read(&asked.query(), &app.job_defaults())?;
    let Asked { head, body, .. } = asked;
    let body = app.job_body.read(body).await?;
    let job = terms.job(body, &Extras::read(&head.headers)?);
    drop(head);
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
