//! All routes of the dashboard.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, map_response};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use tidegate_daemon::run_to_end;

use super::assets;
use super::pages::{
    act, dead, job, jobs, keys, namespace, overview, queue, queues, relay, relays, schedule,
    schedules, system, workers,
};
use super::visit::Dashboard;
use crate::app::App;

/// The resources that pages may load: nothing of other sites, and no script or style in the page itself.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

/// The routes. They need [`crate::accounts::require_account`].
pub(crate) fn router(app: Arc<App>) -> Router {
    const QUEUE: &str = "/ui/{pool}/queues/{namespace}/{queue}";
    Router::new()
        .route("/ui", get(overview::show))
        .route("/ui/", get(async || Redirect::permanent("/ui")))
        .route("/ui/assets/{version}/{name}", get(assets::show))
        .route("/ui/{pool}/queues", get(queues::show))
        .route(QUEUE, get(queue::show).post(queue::act))
        .route(&format!("{QUEUE}/jobs"), get(jobs::show))
        .route(&format!("{QUEUE}/act"), get(act::back).post(act::act))
        .route(&format!("{QUEUE}/dead"), get(dead::show))
        .route(
            &format!("{QUEUE}/jobs/{{job}}"),
            get(job::show).post(job::act),
        )
        .route(&format!("{QUEUE}/jobs/{{job}}/payload"), get(job::payload))
        .route("/ui/{pool}/schedules", get(schedules::show))
        .route(
            "/ui/{pool}/schedules/{namespace}/{schedule}",
            get(schedule::show).post(schedule::act),
        )
        .route("/ui/keys", get(keys::show).post(keys::act))
        .route("/ui/relays", get(relays::show))
        .route(
            "/ui/relays/{namespace}/{relay}",
            get(relay::show).post(relay::act),
        )
        .route("/ui/{pool}/namespaces", get(namespace::show))
        .route("/ui/{pool}/workers", get(workers::show))
        .route("/ui/{pool}/system", get(system::show))
        .layer(from_fn(finish_action))
        .layer(map_response(with_headers))
        .with_state(Arc::new(Dashboard::new(app)))
}

/// An action that has begun is finished and logged, also if the client leaves, which ends the task of its connection.
async fn finish_action(request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let action = run_to_end(next.run(request)).await;
    action.unwrap_or_else(|| StatusCode::SERVICE_UNAVAILABLE.into_response())
}

async fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // The content of pages may be secret. Files have a header of their own.
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}
