//! `GET /relays`: the relays of all namespaces with their secrets, for `tidegate-relayd`. The `ETag` changes with any relay; with
//! `If-None-Match` a list that has not changed is 304, without a body.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde::Serialize;
use tidegate_api_types::relay::RelayConfig;
use tidegate_store::TableRevision;

use super::error::AdminError;
use crate::app::App;
use crate::http::etag;
use crate::http::json;
use crate::relay_table::ReadRelay;

#[derive(Serialize)]
struct AdminRelayList {
    items: Vec<AdminRelayItem>,
    /// Relays that cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<DamagedRelay>,
}

#[derive(Serialize)]
struct AdminRelayItem {
    namespace: String,
    name: String,
    config: RelayConfig,
}

#[derive(Serialize)]
struct DamagedRelay {
    namespace: String,
    name: String,
    problem: String,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response<Body>, AdminError> {
    let relays = &app.engine.relays;
    if headers.contains_key(header::IF_NONE_MATCH) {
        let last = relays.last_revision().await?;
        if etag::is_known(&headers, last) {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            add_headers(response.headers_mut(), last);
            return Ok(response);
        }
    }
    let rows = relays.all().await?;
    let (mut items, mut damaged) = (Vec::new(), Vec::new());
    for (key, stored) in rows.by_key {
        let (namespace, name) = (key.namespace.to_string(), key.name);
        match ReadRelay::from(&stored).config {
            Ok(config) => items.push(AdminRelayItem {
                namespace,
                name,
                config,
            }),
            Err(error) => damaged.push(DamagedRelay {
                namespace,
                name,
                problem: error.to_string(),
            }),
        }
    }
    let mut response = json::answer(StatusCode::OK, &AdminRelayList { items, damaged });
    add_headers(response.headers_mut(), rows.last);
    Ok(response)
}

fn add_headers(headers: &mut HeaderMap, last: TableRevision) {
    etag::set(headers, last);
    // The list has secrets.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}
