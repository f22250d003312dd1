//! `GET /info?pool=`: all namespaces of a pool with their queues. A pool that moves has the queues of both deployments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, Response, header};
use axum::response::IntoResponse;
use futures_util::future::join_all;

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
    let known = join_all(pool.with_target().map(|one| one.collector.known_queues())).await;
    let Some(known) = known.into_iter().collect::<Option<Vec<_>>>() else {
        return AdminError::Internal.into_response();
    };
    let mut queues: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for listed in known.iter().flat_map(|(listed, _)| &listed.queues) {
        let of_namespace = queues.entry(listed.queue.namespace.as_str()).or_default();
        of_namespace.insert(listed.queue.queue.as_str());
    }
    let mut text = json::pretty(&queues);
    text.push(b'\n');
    let mut response = plain(text);
    let headers = response.headers_mut();
    if let Some(age) = known.iter().filter_map(|(_, age)| *age).max() {
        headers.insert(header::AGE, age.as_secs().into());
    }
    let missing: u64 = known.iter().map(|(it, _)| it.missing_buckets as u64).sum();
    if missing > 0 {
        headers.insert(MISSING_BUCKETS, missing.into());
    }
    response
}

fn plain(text: Vec<u8>) -> Response<Body> {
    ([(header::CONTENT_TYPE, PLAIN)], text).into_response()
}
