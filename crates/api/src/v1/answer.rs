//! Answers: JSON, or the bytes of a job.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use serde::Serialize;
use tidegate_api_types::values::ContentType;

use super::error::NativeError;

/// The content type of answers.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer with a JSON body.
pub(super) fn json_answer(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    let mut response = Response::new(Body::from(serde_json::to_vec(value).unwrap_or_default()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// An answer whose body is a payload or a result.
pub(super) fn bytes_answer(
    content_type: &ContentType,
    bytes: Bytes,
) -> Result<Response<Body>, NativeError> {
    let content_type = HeaderValue::try_from(content_type.to_string());
    let content_type = content_type.map_err(|_| NativeError::internal())?;
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    // The bytes are shown as they are, and must not run as a page of this origin.
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox"),
    );
    Ok(response)
}
