//! The OpenAPI document of the native API, and a page that shows it. Both need no credential and nothing from other
//! servers.

use std::borrow::Cow;
use std::future::ready;
use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::http::{HeaderValue, Method, Response, StatusCode, header};
use axum::response::IntoResponse;
use utoipa_swagger_ui::Config;

use crate::app::App;
use crate::http::exchange::Answering;
use crate::http::metrics::Endpoint;
use crate::http::request::ApiRequest;
use crate::v1;

const DOCUMENT: &str = "/openapi.json";
const PAGE: &str = "/docs";
const FILES: &str = "/docs/";

/// The page loads its own files, asks its own server, and is not shown inside of others. Swagger UI sets styles of
/// elements, and has pictures in its style sheet.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// Relative addresses, so that a proxy may serve the API below another path. Swagger UI otherwise asks a server on the
/// internet for its opinion of the document.
static CONFIG: LazyLock<Arc<Config<'static>>> =
    LazyLock::new(|| Arc::new(Config::from("../openapi.json").validator_url("none")));

/// Whether a request is for the document or the page.
pub(crate) fn is_docs(method: &Method, path: &str) -> bool {
    let is_read = [Method::GET, Method::HEAD].contains(method);
    is_read && (path == DOCUMENT || path == PAGE || path.starts_with(FILES))
}

/// Answers a request for which [`is_docs`] is true.
pub(crate) fn handle(_: &Arc<App>, api_request: ApiRequest) -> (Endpoint, Answering) {
    let mut response = answer(api_request.path());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    (Endpoint::UNMATCHED, Box::pin(ready(response)))
}

fn answer(path: &str) -> Response<Body> {
    match path.strip_prefix(FILES) {
        Some(file) => page_file(file),
        None if path == DOCUMENT => {
            let kind = [(header::CONTENT_TYPE, "application/json")];
            (kind, v1::document()).into_response()
        }
        // The page names its files relative to its own address.
        None => {
            let target = [(header::LOCATION, "docs/")];
            (StatusCode::PERMANENT_REDIRECT, target).into_response()
        }
    }
}

fn page_file(name: &str) -> Response<Body> {
    let found = utoipa_swagger_ui::serve(name, Arc::clone(&CONFIG));
    let Ok(Some(file)) = found else {
        return (StatusCode::NOT_FOUND, "no such file").into_response();
    };
    let (content_type, is_compressed) = (file.content_type, file.gzpipped);
    let body = match file.bytes {
        Cow::Borrowed(bytes) => Body::from(bytes),
        Cow::Owned(bytes) => Body::from(bytes),
    };
    let mut response = ([(header::CONTENT_TYPE, content_type)], body).into_response();
    if is_compressed {
        let encoding = HeaderValue::from_static("gzip");
        response
            .headers_mut()
            .insert(header::CONTENT_ENCODING, encoding);
    }
    response
}
