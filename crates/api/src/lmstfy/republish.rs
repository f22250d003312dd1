//! `PUT /api/NAMESPACE/QUEUE/job/ID`: stores a job and deletes another one.
//!
//! The request is validated first. Then the old job is deleted in the same step that stores the new one, except as
//! `Pool::publish` says. A job that was drained from another server has its id there as its key here; it is deleted in
//! a separate step. If the id is unknown, the new job is only stored.
//!
//! A republish takes a unit of the rate limit, as a publish does.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;

use super::error::ApiError;
use super::publish::publish_one;
use super::scope::PublishScope;
use crate::app::App;
use crate::http::request::ApiRequest;

pub(super) async fn republish(
    app: Arc<App>,
    api_request: ApiRequest,
) -> Result<Response<Body>, ApiError> {
    let scope = PublishScope::open(&app, &api_request).await?;
    publish_one(&app, scope, api_request).await
}
