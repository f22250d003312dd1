//! For `tidegate-relayd`:
//!
//! * `GET /relays`: the relays of all namespaces with their secrets. The `ETag` changes with any relay; with
//!   `If-None-Match` a list that has not changed is 304, without a body.
//! * `PUT /relays/reports`: stores the state of relays, as the process that runs or refuses them reports it.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use tidegate_core::v1::problem::ProblemCode;
use tidegate_core::v1::relay::{DamagedRelay, RelayReports, StoredRelayConfig, StoredRelays};
use tidegate_store::{NewRelayReport, TableRevision};

use super::error::AdminError;
use crate::app::App;
use crate::http::etag;
use crate::http::json;

/// More than the reports that `tidegate-relayd` sends in a request have.
const REPORTS_BYTES_MAX: usize = 1 << 20;

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
    for (key, row) in rows.by_name {
        let (namespace, name) = (key.namespace, key.name);
        match row.readable() {
            Ok((config, revision)) => items.push(StoredRelayConfig {
                namespace,
                name,
                revision: revision.to_string(),
                config,
            }),
            Err(_) => damaged.push(DamagedRelay {
                namespace,
                name,
                problem: ProblemCode::RelayUnreadable.info().description.to_owned(),
            }),
        }
    }
    let mut response = json::answer(StatusCode::OK, &StoredRelays { items, damaged });
    add_headers(response.headers_mut(), rows.last);
    Ok(response)
}

pub(super) async fn report(
    State(app): State<Arc<App>>,
    body: Body,
) -> Result<Response<Body>, AdminError> {
    let body = app.job_body.up_to(REPORTS_BYTES_MAX).read(body).await;
    let body = body.map_err(|_| AdminError::NotReports)?;
    let reports: RelayReports =
        json::parse_object(&body.bytes).map_err(|_| AdminError::NotReports)?;
    let items = reports.items.into_iter().map(|report| NewRelayReport {
        rank: report.status.state as u8,
        status: serde_json::to_string(&report.status).unwrap_or_default(),
        relay: report.relay,
        revision: report.revision,
    });
    let items: Vec<_> = items.collect();
    let relays = &app.engine.relays;
    relays.report(reports.process, &items).await?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

fn add_headers(headers: &mut HeaderMap, last: TableRevision) {
    etag::set(headers, last);
    // The list has secrets.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}
