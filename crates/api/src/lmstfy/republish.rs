//! `PUT /api/NAMESPACE/QUEUE/job/ID`: stores a job in the place of another.
//!
//! Everything is checked first; the old job goes in the same step in which the new one is stored. An id
//! that is unknown, or no id at all, replaces nothing.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;

use super::error::Refusal;
use super::publish::publish_one;
use super::request::Asked;
use super::scope::QueueScope;
use crate::app::App;

pub(super) async fn republish(app: Arc<App>, asked: Asked) -> Result<Response<Body>, Refusal> {
    let scope = QueueScope::open(&app, &asked).await?;
    let replaces = scope.job.map(|job| job.id);
    publish_one(&app, &scope, asked, replaces).await
}
