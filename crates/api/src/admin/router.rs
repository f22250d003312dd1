//! The routes of the admin port besides `/v1`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, delete, get, post, put};
use tidegate_daemon::admin_router;
use tidegate_daemon::metrics::Metrics;
use ulid::Ulid;

use super::error::AdminError;
use super::{access_log, cold, info, limits, namespaces, profiles, relays, tokens, views};
use crate::accounts::{Accounts, require_account, require_admin};
use crate::app::App;
use crate::dashboard;
use crate::http::unread;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The routes of the admin port at `address` besides `/v1`, including metrics.
pub(super) fn router(
    address: SocketAddr,
    app: Arc<App>,
    accounts: Accounts,
    metrics: Metrics,
) -> Router {
    let limit = get(limits::show)
        .post(limits::create)
        .put(limits::set)
        .delete(limits::delete);
    let quota = get(namespaces::show)
        .put(namespaces::set)
        .delete(namespaces::delete);
    let guard = from_fn_with_state(accounts, require_account);
    let readiness = app.exchange.readiness.clone();
    // The routes above `route_layer` require credentials of an admin if there are accounts; those below it never do.
    let own = Router::new()
        .route("/token/{namespace}", get(tokens::list).post(tokens::create))
        .route("/token/{namespace}/{token}", delete(tokens::delete))
        .route("/token/{namespace}/{token}/limit", limit)
        .route("/limits", get(limits::list))
        .route("/namespaces", get(namespaces::list))
        .route("/namespaces/{namespace}", quota)
        .route("/relays", get(relays::list))
        .route("/relays/reports", put(relays::report))
        .route("/accesslog", post(access_log::set))
        .route_layer(from_fn(require_admin))
        .route_layer(guard.clone())
        .route("/version", get(views::version))
        .route("/version/", get(async || moved("/version")))
        .route("/pools", get(views::pools))
        .route("/pools/", get(async || moved("/pools")))
        .route("/cold", get(cold::show))
        .route("/info", get(info::info))
        .route("/info/", get(async || moved("/info")))
        .route("/accesslog", get(access_log::show))
        .route("/debug/pprof", any(profiles::no_profiler))
        .route("/debug/pprof/", any(profiles::no_profiler))
        .route("/debug/pprof/{*profile}", any(profiles::no_profiler))
        .with_state(Arc::clone(&app))
        .merge(dashboard::router(Arc::clone(&app)).route_layer(guard));
    admin_router(address, metrics, readiness, own)
        .layer(from_fn_with_state(app, count_unread))
        .layer(map_response(with_request_id))
}

/// Counts an answer until it is written.
async fn count_unread(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let response = next.run(request).await;
    let counted = unread::counted(response, &app.exchange.unread_by_operators, !is_read);
    counted.unwrap_or_else(|_| AdminError::AnswersFull.into_response())
}

pub(super) async fn with_request_id(mut response: Response) -> Response {
    if let Ok(id) = HeaderValue::from_str(&Ulid::generate().to_string()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

fn moved(target: &'static str) -> impl IntoResponse {
    (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, target)])
}
