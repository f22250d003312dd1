//! Answers to requests that match no route.

use axum::body::Body;
use axum::http::{HeaderValue, Method, Response, StatusCode, Uri, header};
use axum::response::IntoResponse;

use super::error::ApiError;
use crate::http::exchange::WithoutRequestId;

/// Answers a request that has no route.
pub(crate) fn unmatched(method: &Method, uri: &Uri) -> Response<Body> {
    let path: Vec<&str> = uri.path().split('/').collect();
    match path[..] {
        // A namespace and a slash: the client is redirected to the path without the slash, which is not found either.
        // Other paths with a trailing slash are unknown.
        ["", "api", namespace, ""] if !namespace.is_empty() => redirect(method, uri),
        // An empty namespace is an invalid name, not an unknown path.
        ["", "api", "", queue] if !queue.is_empty() => ApiError::NamespaceForbidden.into_response(),
        _ => ApiError::ApiNotFound.into_response(),
    }
}

fn redirect(method: &Method, uri: &Uri) -> Response<Body> {
    let mut target = uri.path().trim_end_matches('/').to_owned();
    if let Some(query) = uri.query() {
        target = format!("{target}?{query}");
    }
    let Ok(location) = HeaderValue::from_str(&target) else {
        return ApiError::ApiNotFound.into_response();
    };
    // 307 keeps the method; 301 lets a client change it to GET.
    let mut response = if *method == Method::GET {
        moved_page(&target)
    } else {
        StatusCode::TEMPORARY_REDIRECT.into_response()
    };
    response.headers_mut().insert(header::LOCATION, location);
    response.extensions_mut().insert(WithoutRequestId);
    response
}

fn moved_page(target: &str) -> Response<Body> {
    let safe = target
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&#34;")
        .replace('\'', "&#39;");
    let page = format!("<a href=\"{safe}\">Moved Permanently</a>.\n\n");
    let html = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (StatusCode::MOVED_PERMANENTLY, html, page).into_response()
}
