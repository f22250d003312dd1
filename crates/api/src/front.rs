//! Passes each request on the public port to the front door that answers it.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use tidegate_service::Peer;

use crate::app::App;
use crate::http::exchange::begin;
use crate::{docs, lmstfy, v1};

/// Answers one request of `peer`.
pub(crate) fn answer(
    app: &Arc<App>,
    request: Request<Incoming>,
    peer: Peer,
) -> impl Future<Output = Response<Body>> + Send + use<> {
    let (api_request, unanswered) = begin(request, peer);
    let handle = match api_request.path() {
        path if v1::is_native(path) => v1::handle,
        path if docs::is_docs(&api_request.head.method, path) => docs::handle,
        _ => lmstfy::handle,
    };
    let (endpoint, answering) = handle(app, api_request);
    unanswered.answer(Arc::clone(&app.exchange), endpoint, answering)
}
