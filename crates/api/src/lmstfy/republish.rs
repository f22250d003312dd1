//! `PUT /api/NAMESPACE/QUEUE/job/ID`: stores a job in the place of another.
//!
//! Everything is checked first; the old job goes in the same step in which the new one is stored. An id
//! that is unknown, or no id at all, replaces nothing.
//!
//! A republish stores a job, so it takes a unit of the rate limit as a publish does.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;

use super::error::Refusal;
use super::publish::publish_one;
use super::request::Asked;
use super::scope::PublishScope;
use crate::app::App;

pub(super) async fn republish(app: Arc<App>, asked: Asked) -> Result<Response<Body>, Refusal> {
    let scope = PublishScope::open(&app, &asked).await?;
    let replaces = scope.queue.job.map(|job| job.id);
    publish_one(&app, scope, asked, replaces).await
}
