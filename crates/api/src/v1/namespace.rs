//! `GET /v1/NAMESPACE`: the limits of a namespace, and how much of them it uses.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_core::v1::namespace::NamespaceDetails;

use super::answer::json_answer;
use super::error::NativeError;
use super::native_request::NativeRequest;

pub(super) async fn show(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let namespace = request.namespace()?;
    let engine = &request.app.engine;
    let limits = engine.namespace_use(request.pool(), namespace).await?;
    let shown = NamespaceDetails {
        namespace: namespace.to_string(),
        limits,
    };
    Ok(json_answer(StatusCode::OK, &shown))
}
