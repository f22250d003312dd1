//! The part of an admin port that every daemon has.

use std::net::SocketAddr;
use std::pin::Pin;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::get;
use hyper::body::Incoming;
use tower::ServiceExt;

use crate::Peer;
use crate::health::Readiness;
use crate::metrics::{CONTENT_TYPE, Metrics};
use crate::same_origin::{OnLoopback, same_origin};

/// A daemon's `own` routes, `GET /metrics`, `/healthz` and `/readyz`, and `404 page not found` as text for
/// everything else. `address` is where they are served. Requests that a web page of another site has sent are
/// answered 403, all but those to `/healthz` and `/readyz`.
pub fn admin_router(
    address: SocketAddr,
    metrics: Metrics,
    readiness: Readiness,
    own: Router,
) -> Router {
    let on_loopback = OnLoopback(address.ip().to_canonical().is_loopback());
    let show = move || async move {
        let page = metrics.show().await;
        ([(header::CONTENT_TYPE, CONTENT_TYPE)], page)
    };
    let alive = readiness.clone();
    own.route("/metrics", get(show))
        .route("/healthz", get(async move || alive.alive()))
        .route("/readyz", get(async move || readiness.answer().await))
        .method_not_allowed_fallback(page_not_found)
        .fallback(page_not_found)
        .layer(from_fn_with_state(on_loopback, same_origin))
}

async fn page_not_found() -> impl IntoResponse {
    (StatusCode::NOT_FOUND, "404 page not found")
}

/// Has a router answer the requests of a listener. [`Peer`] is an extension of each request.
pub fn routed(
    router: Router,
) -> impl Fn(Request<Incoming>, Peer) -> Answering + Clone + Send + 'static {
    move |mut request, peer| {
        request.extensions_mut().insert(peer);
        let answering = router.clone().oneshot(request);
        Box::pin(async move {
            match answering.await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        })
    }
}

/// An answer on its way.
type Answering = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;
