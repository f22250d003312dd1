//! `PUT /api/NAMESPACE/QUEUE/job/ID`: stores a job in the place of another.
//!
//! Everything is checked first; the old job goes in the same step in which the new one is stored. An id
//! that is unknown, or no id at all, replaces nothing.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response};

use super::error::Refusal;
use super::publish::publish_one;
use super::query::Query;
use super::scope::QueueScope;
use crate::app::App;

pub(super) async fn republish(
    State(app): State<Arc<App>>,
    scope: QueueScope,
    query: Query,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, Refusal> {
    let replaces = scope.job.map(|job| job.id);
    publish_one(&app, &scope, &query, &headers, body, replaces).await
}
