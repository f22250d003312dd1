//! `GET /info?pool=`: all namespaces of a pool with their queues. A pool that moves has those of both deployments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Response, header};
use axum::response::IntoResponse;
use futures_util::future::join_all;

use super::error::AdminError;
use crate::app::App;
use crate::http::json;
use crate::http::query::Query;
use tidegate_engine::Collected;

/// The body is JSON. lmstfy declares it as plain text.
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

pub(super) async fn info(State(app): State<Arc<App>>, query: Query<'static>) -> Response<Body> {
    let Some(pool) = app.pool(&query.get("pool").unwrap_or_default()) else {
        return plain(Vec::new());
    };
    let collected = join_all(pool.with_target().map(|one| one.collector.collect())).await;
    let whole = |one: &Arc<Collected>| one.listed.missing_buckets == 0;
    let collected = collected.into_iter().map(|one| one.filter(whole));
    let Some(collected) = collected.collect::<Option<Vec<_>>>() else {
        return AdminError::Internal.into_response();
    };
    let mut queues: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for listed in collected.iter().flat_map(|one| &one.listed.queues) {
        let of_namespace = queues.entry(listed.queue.namespace.as_str()).or_default();
        of_namespace.insert(listed.queue.queue.as_str());
    }
    let mut text = json::pretty(&queues);
    text.push(b'\n');
    plain(text)
}

fn plain(text: Vec<u8>) -> Response<Body> {
    ([(header::CONTENT_TYPE, PLAIN)], text).into_response()
}
