//! Passes each request on the public port to the front door that answers it.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use tidegate_daemon::Peer;

use crate::app::App;
use crate::http::context::Port;
use crate::http::exchange::{Answering, OverBudgetAnswer, begin};
use crate::http::metrics::Endpoint;
use crate::http::request::ApiRequest;
use crate::{docs, lmstfy, v1};

/// Chooses the handler of a request.
type Handle = fn(&Arc<App>, ApiRequest) -> (Endpoint, Answering);

/// Answers one request of `peer`.
pub(crate) fn answer(
    app: &Arc<App>,
    request: Request<Incoming>,
    peer: Peer,
) -> impl Future<Output = Response<Body>> + Send + use<> {
    let (api_request, unanswered) = begin(request, peer, Port::Public);
    let (handle, over_budget): (_, OverBudgetAnswer) = match api_request.path() {
        path if v1::is_native(path) => (v1::handle as Handle, v1::over_budget),
        path if docs::is_docs(&api_request.head.method, path) => (docs::handle, v1::over_budget),
        _ => (lmstfy::handle, |_| lmstfy::over_budget()),
    };
    let (endpoint, answering) = handle(app, api_request);
    let exchange = Arc::clone(&app.exchange);
    unanswered.answer(exchange, endpoint, answering, over_budget)
}
