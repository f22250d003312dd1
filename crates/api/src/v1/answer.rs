//! Answers with a JSON body.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

/// The content type of answers.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer with a JSON body.
pub(super) fn json_answer(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    let mut response = Response::new(Body::from(serde_json::to_vec(value).unwrap_or_default()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}
