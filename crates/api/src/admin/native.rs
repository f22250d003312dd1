//! `/v1` on the admin port: the native API for operators. Accounts are checked in place of API keys, and an operator
//! may do everything in all namespaces; `?pool=` names another pool than the default one.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use tidegate_daemon::metrics::Metrics;
use tidegate_daemon::{Peer, cross_site_refusal, router_handler};

use super::router::{router, with_request_id};
use crate::accounts::Accounts;
use crate::app::App;
use crate::http::context::Port;
use crate::http::exchange::begin;
use crate::v1;

/// Answers the requests at the admin port at `address`: requests to `/v1`, and those to its router.
pub(crate) fn handler(
    address: SocketAddr,
    app: Arc<App>,
    accounts: Accounts,
    metrics: Metrics,
) -> impl Fn(Request<Incoming>, Peer) -> BoxedResponse + Clone + Send + 'static {
    let on_loopback = address.ip().to_canonical().is_loopback();
    let router = router(address, Arc::clone(&app), accounts.clone(), metrics);
    let router = router_handler(router);
    move |request, peer| match v1::is_native(request.uri().path()) {
        true => {
            let (app, accounts) = (Arc::clone(&app), accounts.clone());
            Box::pin(async move { answer(&app, &accounts, on_loopback, request, peer).await })
        }
        false => router(request, peer),
    }
}

type BoxedResponse = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

async fn answer(
    app: &Arc<App>,
    accounts: &Accounts,
    on_loopback: bool,
    request: Request<Incoming>,
    peer: Peer,
) -> Response<Body> {
    let refused = match cross_site_refusal(request.headers(), on_loopback) {
        Some(refused) => Some(refused),
        None => {
            let admitted = accounts.admit_admin(request.headers(), &peer).await;
            admitted.err().map(IntoResponse::into_response)
        }
    };
    if let Some(refused) = refused {
        return with_request_id(refused).await;
    }
    let (api_request, unanswered) = begin(request, peer, Port::Admin);
    let (endpoint, answering) = v1::handle(app, api_request);
    let exchange = Arc::clone(&app.exchange);
    unanswered
        .answer(exchange, endpoint, answering, v1::over_budget)
        .await
}
