//! `GET /cold`: the cold tiers of all pools that have one.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use futures_util::future::join_all;

use crate::app::App;
use crate::cold_status::cold_status;
use crate::http::json;

pub(super) async fn show(State(app): State<Arc<App>>) -> Response<Body> {
    let views = join_all(app.engine.pools().map(|pool| cold_status(pool))).await;
    let shown: Vec<_> = views.into_iter().flatten().collect();
    json::pretty_answer(StatusCode::OK, &shown)
}
