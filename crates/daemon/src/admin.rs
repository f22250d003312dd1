//! Routes that the admin port of every daemon has.

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

use crate::health::Readiness;
use crate::listener::Peer;
use crate::metrics::{CONTENT_TYPE, Metrics};
use crate::same_origin::same_origin;

/// Returns a router with the daemon's `own` routes plus `GET /metrics`, `/healthz` and `/readyz`. Everything
/// else, including other methods on these paths, is answered 404 with the text `404 page not found`.
///
/// `address` is the address on which the routes are served. Cross-site requests of browsers are answered 403,
/// except on `/healthz` and `/readyz`.
pub fn admin_router(
    address: SocketAddr,
    metrics: Metrics,
    readiness: Readiness,
    own: Router,
) -> Router {
    let on_loopback = address.ip().to_canonical().is_loopback();
    let show = move || async move {
        let page = metrics.render().await;
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

/// Makes a router the request handler of a [`Listener`](crate::listener::Listener). Each request carries its [`Peer`]
/// as an extension.
pub fn router_handler(
    router: Router,
) -> impl Fn(Request<Incoming>, Peer) -> BoxedResponse + Clone + Send + 'static {
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

type BoxedResponse = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;
