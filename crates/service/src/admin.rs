//! The part of an admin port that every daemon has.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::metrics::{CONTENT_TYPE, Metrics};

/// A daemon's `own` routes, `GET /metrics`, and `404 page not found` as text for everything else.
pub fn admin_router(metrics: Metrics, own: Router) -> Router {
    let show = move || async move { ([(header::CONTENT_TYPE, CONTENT_TYPE)], metrics.render()) };
    own.route("/metrics", get(show))
        .method_not_allowed_fallback(page_not_found)
        .fallback(page_not_found)
}

async fn page_not_found() -> impl IntoResponse {
    (StatusCode::NOT_FOUND, "404 page not found")
}
