//! `GET /info?pool=`: all namespaces of a pool with their queues. A pool that moves has the queues of both deployments.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, Response, header};
use axum::response::IntoResponse;

use super::error::AdminError;
use crate::app::App;
use crate::http::json;
use crate::http::query::Query;

/// The body is JSON. lmstfy declares it as plain text.
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// How many buckets could not be read: their queues are missing.
const MISSING_BUCKETS: HeaderName = HeaderName::from_static("tidegate-missing-buckets");

pub(super) async fn info(State(app): State<Arc<App>>, query: Query<'static>) -> Response<Body> {
    let Some(pool) = app.pool(&query.get("pool").unwrap_or_default()) else {
        return plain(Vec::new());
    };
    let Some(sizes) = pool.sizes().await else {
        return AdminError::Internal.into_response();
    };
    let overview = sizes.overview_of(|_| true);
    let mut queues: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for queue in overview.queues.keys() {
        let of_namespace = queues.entry(queue.namespace.as_str()).or_default();
        of_namespace.push(queue.queue.as_str());
    }
    let mut text = json::pretty(&queues);
    text.push(b'\n');
    let mut response = plain(text);
    if overview.missing_buckets > 0 {
        let missing = HeaderValue::from(overview.missing_buckets);
        response.headers_mut().insert(MISSING_BUCKETS, missing);
    }
    response
}

fn plain(text: Vec<u8>) -> Response<Body> {
    ([(header::CONTENT_TYPE, PLAIN)], text).into_response()
}
