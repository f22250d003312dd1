//! Processing of every request of the lmstfy API before its handler: it is screened, and an ignored body is read and
//! dropped.

use std::future::ready;
use std::sync::Arc;

use axum::body::HttpBody;
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::IntoResponse;

use super::error::ApiError;
use super::routes;
use crate::app::App;
use crate::http::body::LentBody;
use crate::http::exchange::Answering;
use crate::http::metrics::Endpoint;
use crate::http::query::{Plus, unescape};
use crate::http::request::ApiRequest;

/// Answers a request. The endpoint is [`Endpoint::UNMATCHED`] if no route has its path and method.
pub(crate) fn handle(app: &Arc<App>, mut api_request: ApiRequest) -> (Endpoint, Answering) {
    if let Err(refusal) = reject_unroutable(&api_request.head) {
        let answering = Box::pin(ready(refusal.into_response()));
        return (Endpoint::UNMATCHED, answering);
    }
    if api_request.head.method == Method::PUT || api_request.body.is_end_stream() {
        return routes::handle(app, api_request);
    }
    // GET and DELETE have no use for a body, but some clients send one. It is read, because hyper does not notice a
    // hang-up during a long poll while a body is unread.
    let ignored = std::mem::replace(&mut api_request.body, LentBody::empty());
    let skipping = app.job_body.clone().skip(ignored);
    let (endpoint, answering) = routes::handle(app, api_request);
    let answering = async move {
        match skipping.await {
            Ok(()) => answering.await,
            Err(error) => ApiError::from(error).into_response(),
        }
    };
    (endpoint, Box::pin(answering))
}

/// Rejects requests that the routes would misinterpret: methods without routes, and paths whose segments change
/// when they are decoded.
///
/// # Errors
/// [`ApiError::BadPath`] for invalid percent-encoding, else [`ApiError::ApiNotFound`].
fn reject_unroutable(head: &Parts) -> Result<(), ApiError> {
    let path = head.uri.path();
    let has_escapes = path.contains('%');
    if has_escapes && unescape(path, Plus::IsPlus).is_none() {
        return Err(ApiError::BadPath);
    }
    let method = &head.method;
    let is_known = [Method::GET, Method::PUT, Method::DELETE].contains(method);
    // lmstfy has no HEAD on other paths, and a HEAD that was handled as a GET would consume a job.
    let is_probe = method == Method::HEAD && routes::is_health_check(path);
    if !is_known && !is_probe {
        return Err(ApiError::ApiNotFound);
    }
    // An encoded slash counts as a slash: the path has one segment more than the match with a template would find.
    if has_escapes && (path.contains("%2F") || path.contains("%2f")) {
        return Err(ApiError::ApiNotFound);
    }
    Ok(())
}
