//! Switches the access log of this process on and off, until the process ends.
//!
//! * `GET /accesslog`
//! * `POST /accesslog?status=enable` or `?status=disable`

use axum::body::Body;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use serde::Serialize;
use tidegate_daemon::logs;

use super::error::AdminError;
use crate::http::json;
use crate::http::query::Query;

#[derive(Serialize)]
struct AccessLogStatus {
    status: &'static str,
}

pub(super) async fn show() -> Response<Body> {
    let status = if logs::access_log() {
        "enabled"
    } else {
        "disabled"
    };
    json::answer(StatusCode::OK, &AccessLogStatus { status })
}

pub(super) async fn set(query: Query<'static>) -> Response<Body> {
    let wanted = match query.get("status").as_deref() {
        Some("enable") => true,
        Some("disable") => false,
        _ => {
            return AdminError::NotASwitch.into_response();
        }
    };
    logs::set_access_log(wanted);
    tracing::info!(enabled = wanted, "switched the access log");
    show().await
}
