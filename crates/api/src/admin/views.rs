//! What operators look at.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use serde::Serialize;

use crate::app::App;
use crate::lmstfy::json;

#[derive(Serialize)]
struct Version {
    build_commit: &'static str,
    build_date: &'static str,
    version: &'static str,
}

/// Which build this is. Commit and date are known if they were in the environment of the build.
const VERSION: Version = Version {
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
    let names: Vec<&str> = app.pools().map(|pool| &*pool.name).collect();
    json::pretty_answer(StatusCode::OK, &names)
}
