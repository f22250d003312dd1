//! Reads and sets the numbers of lanes of queues.
//!
//! * `GET /lanes?pool=`: the queues with more than one lane.
//! * `GET`, `PUT` and `DELETE /lanes/NAMESPACE/QUEUE?pool=`. `PUT` has a body `{"open":8}`; `DELETE` is the same as
//!   `{"open":1}`.
//!
//! A pool that moves has its own numbers of lanes; its new jobs go to the lanes of the target pool.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate_core::{LaneCounts, QueueKey};

use super::error::AdminError;
use super::queue_path::{parse_queue_key, pool};
use crate::app::App;
use crate::http::json;
use crate::http::query::Query;

const BODY_BYTES_MAX: usize = 4 * 1024;

/// The lanes of one queue. These answers are not of lmstfy, so the fields need not be in alphabetical order.
#[derive(Serialize)]
struct LanesView<'a> {
    namespace: &'a str,
    queue: &'a str,
    /// Lanes that take new jobs.
    open: u16,
    /// Lanes that may hold jobs.
    used: u16,
}

impl<'a> LanesView<'a> {
    fn new(queue: &'a QueueKey, counts: LaneCounts) -> Self {
        let LaneCounts { open, used } = counts;
        Self {
            namespace: queue.namespace.as_str(),
            queue: queue.queue.as_str(),
            open,
            used,
        }
    }
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    query: Query<'static>,
) -> Result<Response<Body>, AdminError> {
    let table = pool(&app, &query)?.lanes.read().await?;
    let mut rows: Vec<_> = table.by_queue.iter().collect();
    rows.sort();
    let rows = rows.into_iter();
    let shown: Vec<LanesView<'_>> = rows
        .map(|(queue, row)| LanesView::new(queue, row.counts))
        .collect();
    Ok(json::answer(StatusCode::OK, &shown))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): Path<(String, String)>,
    query: Query<'static>,
) -> Result<Response<Body>, AdminError> {
    let queue = parse_queue_key(&namespace, &queue)?;
    let table = pool(&app, &query)?.lanes.read().await?;
    let counts = table.row(&queue).counts;
    Ok(json::answer(
        StatusCode::OK,
        &LanesView::new(&queue, counts),
    ))
}

#[derive(Deserialize)]
struct SetLanesBody {
    open: u16,
}

pub(super) async fn set(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): Path<(String, String)>,
    query: Query<'static>,
    body: Body,
) -> Result<Response<Body>, AdminError> {
    let body = app.job_body.up_to(BODY_BYTES_MAX).read(body).await;
    let body = body.map_err(|_| AdminError::NotANumberOfLanes)?;
    let SetLanesBody { open } = parse_set_lanes(&body.bytes)?;
    set_open(&app, &parse_queue_key(&namespace, &queue)?, &query, open).await
}

pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): Path<(String, String)>,
    query: Query<'static>,
) -> Result<Response<Body>, AdminError> {
    set_open(&app, &parse_queue_key(&namespace, &queue)?, &query, 1).await
}

async fn set_open(
    app: &App,
    queue: &QueueKey,
    query: &Query<'_>,
    open: u16,
) -> Result<Response<Body>, AdminError> {
    let lanes = &pool(app, query)?.lanes;
    let lanes_max = lanes.lanes_max();
    if !(1..=lanes_max).contains(&open) {
        return Err(AdminError::LanesOutOfRange { lanes_max });
    }
    let counts = lanes.set(queue, open).await?;
    tracing::info!(%queue, open = counts.open, used = counts.used, "set the number of lanes");
    Ok(json::answer(StatusCode::OK, &LanesView::new(queue, counts)))
}

fn parse_set_lanes(body: &[u8]) -> Result<SetLanesBody, AdminError> {
    json::parse_object(body).map_err(|_| AdminError::NotANumberOfLanes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_an_object_with_an_integer() {
        let open = |body: &str| parse_set_lanes(body.as_bytes()).map(|wish| wish.open);
        assert_eq!(open(r#"{"open":8,"more":1}"#), Ok(8));
        for body in [
            "",
            "8",
            "[8]",
            "{}",
            r#"{"open":"8"}"#,
            r#"{"open":-1}"#,
            r#"{"open":65536}"#,
        ] {
            assert_eq!(open(body), Err(AdminError::NotANumberOfLanes), "{body}");
        }
    }
}
