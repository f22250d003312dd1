//! Every route of the wire.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{MethodRouter, delete, get, put};
use tidegate_service::health;
use tower::util::MapResponseLayer;

use super::{
    ack, peek, publish, publish_bulk, purge, republish, reserve, respawn, stats, time_limit,
    unmatched,
};
use crate::app::App;

type Route = MethodRouter<Arc<App>>;

/// The label of a request in metrics and logs, left in the extensions of its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verb(pub(crate) &'static str);

/// The public routes. Only GET, PUT and DELETE are to be sent here: axum would take a HEAD for a GET.
pub(crate) fn router(app: Arc<App>) -> Router {
    let limit = from_fn_with_state(Arc::clone(&app), time_limit::limited);
    let queue = verb("publish", put(publish::publish))
        .merge(verb("purge", delete(purge::purge_ready)))
        .route_layer(limit.clone())
        .merge(verb("reserve", get(reserve::reserve)));
    let bulk = verb("publish", put(publish_bulk::publish_bulk));
    let peek_queue = verb("peek", get(peek::peek_queue));
    let job = verb("publish", put(republish::republish))
        .merge(verb("peek", get(peek::peek_job)))
        .merge(verb("ack", delete(ack::ack)));
    let dead_letter = verb("respawn", put(respawn::respawn))
        .merge(verb("peek", get(peek::peek_dead)))
        .merge(verb("purge", delete(purge::purge_dead)));
    // Not of lmstfy: for balancers.
    let readyz = async |State(app): State<Arc<App>>| app.readiness.answer().await;
    Router::new()
        .route("/api/{namespace}/{queue}/bulk", bulk)
        .route("/api/{namespace}/{queue}/peek", peek_queue)
        .route("/api/{namespace}/{queue}/job/{job_id}", job)
        .route("/api/{namespace}/{queue}/deadletter", dead_letter)
        .route(
            "/api/{namespace}/{queue}/size",
            verb("stats", get(stats::ready)),
        )
        .route(
            "/api/{namespace}/{queue}/deadletter/size",
            verb("stats", get(stats::dead)),
        )
        .route_layer(limit)
        .route("/api/{namespace}/{queue}", queue)
        .route("/healthz", verb("health", get(health::alive)))
        .route("/readyz", verb("health", get(readyz)))
        .method_not_allowed_fallback(unmatched::unmatched)
        .fallback(unmatched::unmatched)
        .with_state(app)
}

fn verb(name: &'static str, route: Route) -> Route {
    route.route_layer(MapResponseLayer::new(move |mut response: Response| {
        response.extensions_mut().insert(Verb(name));
        response
    }))
}
