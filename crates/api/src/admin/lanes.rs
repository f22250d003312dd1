//! How many lanes queues have.
//!
//! * `GET /lanes?pool=`: the queues that have more than one.
//! * `GET`, `PUT` and `DELETE /lanes/NAMESPACE/QUEUE?pool=`. `PUT` has a body `{"open":8}`; `DELETE` is the
//!   same as 1.
//!
//! A pool that migrates has its own; new jobs go by those of the pool that it moves to.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use tidegate_core::{InvalidName, LaneCounts, QueueKey};
use tidegate_store::StoreError;

use crate::app::App;
use crate::body::Reading;
use crate::lmstfy::error::Refusal;
use crate::lmstfy::json;
use crate::lmstfy::query::Query;
use crate::pool::Pool;

const BODY_BYTES_MAX: usize = 4 * 1024;

/// Why a request about lanes is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LanesRefusal {
    NoSuchPool,
    Name(InvalidName),
    NotACount,
    OutOfRange { lanes_max: u16 },
    Internal,
}

#[derive(Serialize)]
struct ErrorText {
    error: String,
}

impl IntoResponse for LanesRefusal {
    fn into_response(self) -> Response<Body> {
        let error = match self {
            Self::NoSuchPool => "there is no such pool".to_owned(),
            Self::Name(error) => error.to_string(),
            Self::NotACount => "the body should be an object with a whole number open".to_owned(),
            Self::OutOfRange { lanes_max } => format!("open should be 1 to {lanes_max}"),
            Self::Internal => return Refusal::Internal.into_response(),
        };
        json::answer(StatusCode::BAD_REQUEST, &ErrorText { error })
    }
}

impl From<StoreError> for LanesRefusal {
    fn from(error: StoreError) -> Self {
        crate::metrics::storage_failed(&error);
        Self::Internal
    }
}

/// What is said of one queue. Fields are in the order in which they matter.
#[derive(Serialize)]
struct Shown<'a> {
    namespace: &'a str,
    queue: &'a str,
    /// Lanes that take new jobs.
    open: u16,
    /// Lanes that may hold jobs.
    used: u16,
}

impl<'a> Shown<'a> {
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
) -> Result<Response<Body>, LanesRefusal> {
    let table = pool(&app, &query)?.lanes.read().await?;
    let mut rows: Vec<_> = table.by_queue.iter().collect();
    rows.sort();
    let rows = rows.into_iter();
    let shown: Vec<Shown<'_>> = rows
        .map(|(queue, row)| Shown::new(queue, row.counts))
        .collect();
    Ok(json::answer(StatusCode::OK, &shown))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): Path<(String, String)>,
    query: Query<'static>,
) -> Result<Response<Body>, LanesRefusal> {
    let queue = named(&namespace, &queue)?;
    let table = pool(&app, &query)?.lanes.read().await?;
    let counts = table.row(&queue).counts;
    Ok(json::answer(StatusCode::OK, &Shown::new(&queue, counts)))
}

#[derive(Deserialize)]
struct Wish {
    open: u16,
}

pub(super) async fn set(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): Path<(String, String)>,
    query: Query<'static>,
    body: Body,
) -> Result<Response<Body>, LanesRefusal> {
    let reading = Reading {
        bytes_max: BODY_BYTES_MAX,
        ..app.job_body.clone()
    };
    let body = reading.read(body).await;
    let body = body.map_err(|_| LanesRefusal::NotACount)?;
    let Wish { open } = read_wish(&body.bytes)?;
    set_open(&app, &named(&namespace, &queue)?, &query, open).await
}

pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): Path<(String, String)>,
    query: Query<'static>,
) -> Result<Response<Body>, LanesRefusal> {
    set_open(&app, &named(&namespace, &queue)?, &query, 1).await
}

async fn set_open(
    app: &App,
    queue: &QueueKey,
    query: &Query<'_>,
    open: u16,
) -> Result<Response<Body>, LanesRefusal> {
    let lanes = &pool(app, query)?.lanes;
    let lanes_max = lanes.lanes_max();
    if !(1..=lanes_max).contains(&open) {
        return Err(LanesRefusal::OutOfRange { lanes_max });
    }
    let counts = lanes.set(queue, open).await?;
    tracing::info!(%queue, open = counts.open, used = counts.used, "lanes were set");
    Ok(json::answer(StatusCode::OK, &Shown::new(queue, counts)))
}

/// Only an object: the derived reading would take a list of one number as well.
fn read_wish(body: &[u8]) -> Result<Wish, LanesRefusal> {
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(body).map_err(|_| LanesRefusal::NotACount)?;
    serde_json::from_value(object.into()).map_err(|_| LanesRefusal::NotACount)
}

fn named(namespace: &str, queue: &str) -> Result<QueueKey, LanesRefusal> {
    Ok(QueueKey {
        namespace: namespace.try_into().map_err(LanesRefusal::Name)?,
        queue: queue.try_into().map_err(LanesRefusal::Name)?,
    })
}

fn pool<'a>(app: &'a App, query: &Query<'_>) -> Result<&'a Arc<Pool>, LanesRefusal> {
    let name = query.get("pool").unwrap_or_default();
    app.pool(&name).ok_or(LanesRefusal::NoSuchPool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_an_object_with_a_whole_number() {
        let open = |body: &str| read_wish(body.as_bytes()).map(|wish| wish.open);
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
            assert_eq!(open(body), Err(LanesRefusal::NotACount), "{body}");
        }
    }
}
