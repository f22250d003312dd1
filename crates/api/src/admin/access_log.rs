//! Whether each request gets a line in the log of this process, until it ends.
//!
//! * `GET /accesslog`
//! * `POST /accesslog?status=enable` or `?status=disable`

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde::Serialize;
use tidegate_service::logs;

use super::tokens::ErrorText;
use crate::lmstfy::json;
use crate::lmstfy::query::Query;

#[derive(Serialize)]
struct Switch {
    status: &'static str,
}

pub(super) async fn show() -> Response<Body> {
    let status = if logs::access_log() {
        "enabled"
    } else {
        "disabled"
    };
    json::answer(StatusCode::OK, &Switch { status })
}

pub(super) async fn set(query: Query<'static>) -> Response<Body> {
    let wanted = match query.get("status").as_deref() {
        Some("enable") => true,
        Some("disable") => false,
        _ => {
            let error = "invalid status";
            return json::answer(StatusCode::BAD_REQUEST, &ErrorText { error });
        }
    };
    logs::set_access_log(wanted);
    tracing::info!(wanted, "the access log was switched");
    show().await
}
