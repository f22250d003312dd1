//! Every route of the wire.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{MethodRouter, get, put};
use tidegate_service::health;
use tower::util::MapResponseLayer;

use super::{
    ack, peek, publish, publish_bulk, purge, republish, reserve, respawn, stats, time_limit,
    unmatched,
};
use crate::app::App;

type Route = MethodRouter<Arc<App>>;

/// What routes are called in metrics. The first stands for requests that match none.
pub(crate) const TEMPLATES: [&str; 8] = [
    "",
    "/api/:namespace/:queue",
    "/api/:namespace/:queue/bulk",
    "/api/:namespace/:queue/peek",
    "/api/:namespace/:queue/job/:job_id",
    "/api/:namespace/:queue/deadletter",
    "/api/:namespace/:queue/size",
    "/api/:namespace/:queue/deadletter/size",
];

/// The route that a request matched, in the extensions of its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matched(pub(crate) &'static str);

/// The public routes. Only GET, PUT and DELETE are to be sent here: axum would take a HEAD for a GET.
pub(crate) fn router(app: Arc<App>) -> Router {
    let limit = from_fn_with_state(Arc::clone(&app), time_limit::limited);
    // A consume keeps the limit by itself.
    let queue = put(publish::publish)
        .delete(purge::purge_ready)
        .route_layer(limit.clone())
        .get(reserve::reserve);
    let limited: [Route; 6] = [
        put(publish_bulk::publish_bulk),
        get(peek::peek_queue),
        put(republish::republish)
            .get(peek::peek_job)
            .delete(ack::ack),
        put(respawn::respawn)
            .get(peek::peek_dead)
            .delete(purge::purge_dead),
        get(stats::ready),
        get(stats::dead),
    ];
    let limited = limited
        .into_iter()
        .map(|route| route.route_layer(limit.clone()));
    let [_, templates @ ..] = TEMPLATES;
    let matching = templates
        .into_iter()
        .zip([queue].into_iter().chain(limited));
    // Not of lmstfy: for balancers.
    let readyz = async |State(app): State<Arc<App>>| app.readiness.answer().await;
    matching
        .fold(Router::new(), |router, (template, route)| {
            router.route(&pattern(template), called(template, route))
        })
        .route("/healthz", get(health::alive))
        .route("/readyz", get(readyz))
        .method_not_allowed_fallback(unmatched::unmatched)
        .fallback(unmatched::unmatched)
        .with_state(app)
}

/// A template as axum writes it.
fn pattern(template: &str) -> String {
    let segments = template.split('/').map(|segment| {
        let name = segment.strip_prefix(':');
        name.map_or_else(|| segment.to_owned(), |name| format!("{{{name}}}"))
    });
    segments.collect::<Vec<_>>().join("/")
}

fn called(template: &'static str, route: Route) -> Route {
    route.route_layer(MapResponseLayer::new(move |mut response: Response| {
        response.extensions_mut().insert(Matched(template));
        response
    }))
}
