//! `PUT /api/NAMESPACE/QUEUE`: stores one job.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;
use serde::Serialize;
use tidegate_core::JobId;

use super::attributes::Extras;
use super::error::Refusal;
use super::job_id::WireJobId;
use super::request::Asked;
use super::scope::PublishScope;
use super::stored_as::{self, StoredIds};
use super::terms::Terms;
use crate::app::App;
use crate::body::{BodyError, ReadBody};

#[derive(Serialize)]
struct Published {
    job_id: WireJobId,
    msg: &'static str,
}

pub(super) async fn publish(app: Arc<App>, asked: Asked) -> Result<Response<Body>, Refusal> {
    let scope = PublishScope::open(&app, &asked).await?;
    publish_one(&app, scope, asked, None).await
}

/// Stores one job, in the place of another if `replaces` says so. A success keeps the permit.
pub(super) async fn publish_one(
    app: &App,
    scope: PublishScope,
    asked: Asked,
    replaces: Option<JobId>,
) -> Result<Response<Body>, Refusal> {
    let terms = Terms::read(&asked.query(), &app.job_defaults())?;
    let Asked { head, body, .. } = asked;
    // The share is kept until the answer: the body is in memory as long.
    let ReadBody {
        bytes,
        share: _share,
    } = app.job_body.read(body).await?;
    let job = terms.job(bytes, &Extras::read(&head.headers)?);
    drop(head);
    let versioned = job.versioned_id;
    let PublishScope {
        queue: scope,
        permit,
    } = scope;
    let aim = app.aim(&scope.pool, &scope.queue.namespace);
    let publishing = scope.pool.publish(&scope.queue, vec![job], replaces, aim);
    let stored = publishing.await?;
    let id = *stored.ids.first().ok_or(Refusal::Internal)?;
    let job_id = WireJobId { id, versioned };
    let msg = "published";
    let answer = stored_as::answer(
        stored.durability,
        StoredIds::One(job_id),
        &Published { job_id, msg },
    )?;
    permit.keep();
    Ok(answer)
}

impl From<BodyError> for Refusal {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self::BodyTooLarge,
            BodyError::Unreadable => Self::BodyUnreadable,
            BodyError::OverBudget => Self::BodiesFull,
        }
    }
}
