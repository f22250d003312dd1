//! Information for operators: version and pools.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use serde::Serialize;

use crate::app::App;
use crate::http::json;

#[derive(Serialize)]
struct BuildVersion {
    build_commit: &'static str,
    build_date: &'static str,
    version: &'static str,
}

/// The version of this build. Commit and date come from the environment variables `TIDEGATE_BUILD_COMMIT` and
/// `TIDEGATE_BUILD_DATE` at build time.
const VERSION: BuildVersion = BuildVersion {
    build_commit: stamped(option_env!("TIDEGATE_BUILD_COMMIT")),
    build_date: stamped(option_env!("TIDEGATE_BUILD_DATE")),
    version: env!("CARGO_PKG_VERSION"),
};

const fn stamped(value: Option<&'static str>) -> &'static str {
    match value {
        Some(value) => value,
        None => "unknown",
    }
}

/// `GET /version`
pub(super) async fn version() -> Response<Body> {
    json::pretty_answer(StatusCode::OK, &VERSION)
}

/// `GET /pools`: the names of all pools.
pub(super) async fn pools(State(app): State<Arc<App>>) -> Response<Body> {
    let names: Vec<&str> = app.engine.pools().map(|pool| &*pool.name).collect();
    json::pretty_answer(StatusCode::OK, &names)
}
