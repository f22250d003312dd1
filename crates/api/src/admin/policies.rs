//! Reads and sets the policies of queues.
//!
//! * `GET /policies?pool=&after=`: the queues with a stored policy.
//! * `GET`, `PUT`, `PATCH` and `DELETE /policies/NAMESPACE/QUEUE?pool=`. `PUT` replaces the policy, `PATCH` changes the
//!   fields in its body, `DELETE` restores the defaults. With `If-Match` they fail if the policy has another `ETag`.
//!
//! A pool that moves has its own policies; its new jobs are subject to those of the target pool.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Serialize;
use tidegate_core::limits::ConfigurableLimits;
use tidegate_core::v1::input::read_body;
use tidegate_core::v1::queue::PolicyChange;
use tidegate_core::{Policy, QueueKey};
use tidegate_engine::PolicyTable;
use tidegate_store::{PolicySetOutcome, StoredPolicy, TableRevision};

use super::error::AdminError;
use super::queue_path::{parse_queue_key, pool};
use crate::app::App;
use crate::http::etag::{self, if_match};
use crate::http::json;
use crate::http::query::Query;

const BODY_BYTES_MAX: usize = 4 * 1024;
/// The most queues in a list.
const PAGE: usize = 500;

#[derive(Serialize)]
struct PolicyList {
    items: Vec<PolicyItem>,
    /// The value of `after` for the next page; null for the last one.
    next: Option<String>,
}

#[derive(Serialize)]
struct PolicyItem {
    namespace: String,
    queue: String,
    policy: Policy,
    /// The stored text, if it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    query: Query<'static>,
) -> Result<Response<Body>, AdminError> {
    let after = query.get("after").filter(|after| !after.is_empty());
    let after = after.map(|after| QueueKey::try_from(&*after));
    let after = after.transpose().map_err(AdminError::QueueName)?;
    let table = &pool(&app, &query)?.policies;
    table.read().await?;
    // One more, to see whether it is the last page.
    let mut stored = table.list(after.as_ref(), PAGE + 1);
    let has_more = stored.len() > PAGE;
    stored.truncate(PAGE);
    let last = stored.last().map(|(queue, _)| queue.to_string());
    let items = stored.into_iter().map(|(queue, stored)| PolicyItem {
        namespace: queue.namespace.to_string(),
        queue: queue.queue.to_string(),
        policy: stored.policy,
        unreadable: stored.unreadable,
    });
    let list = PolicyList {
        items: items.collect(),
        next: last.filter(|_| has_more),
    };
    Ok(json::answer(StatusCode::OK, &list))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): Path<(String, String)>,
    query: Query<'static>,
) -> Result<Response<Body>, AdminError> {
    let queue = parse_queue_key(&namespace, &queue)?;
    let stored = readable(pool(&app, &query)?.policies.get(&queue).await?)?;
    Ok(answer(&stored.policy, stored.revision))
}

pub(super) async fn set(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): Path<(String, String)>,
    query: Query<'static>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, AdminError> {
    let queue = parse_queue_key(&namespace, &queue)?;
    let policy = read(&app, body).await?.apply_to(&Policy::default())?;
    let expected = if_match(&headers)?;
    replace(&pool(&app, &query)?.policies, &queue, &policy, expected).await
}

pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): Path<(String, String)>,
    query: Query<'static>,
    headers: HeaderMap,
) -> Result<Response<Body>, AdminError> {
    let queue = parse_queue_key(&namespace, &queue)?;
    let expected = if_match(&headers)?;
    let default = Policy::default();
    replace(&pool(&app, &query)?.policies, &queue, &default, expected).await
}

/// Merges the body into the stored policy. No change of another client is lost.
pub(super) async fn patch(
    State(app): State<Arc<App>>,
    Path((namespace, queue)): Path<(String, String)>,
    query: Query<'static>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, AdminError> {
    let queue = parse_queue_key(&namespace, &queue)?;
    let change = read(&app, body).await?;
    let expected = if_match(&headers)?;
    let table = &pool(&app, &query)?.policies;
    let changed = table.change(&queue, expected, |policy| change.apply_to(&policy));
    let (policy, revision) = changed.await?;
    tracing::info!(%queue, %policy, %revision, "changed the policy of a queue");
    Ok(answer(&policy, revision))
}

async fn replace(
    table: &PolicyTable,
    queue: &QueueKey,
    policy: &Policy,
    expected: Option<TableRevision>,
) -> Result<Response<Body>, AdminError> {
    match table.set(queue, policy, expected).await? {
        PolicySetOutcome::Done(revision) => {
            tracing::info!(%queue, %policy, %revision, "set the policy of a queue");
            Ok(answer(policy, revision))
        }
        PolicySetOutcome::VersionMismatch(_) => Err(AdminError::PolicyChanged),
    }
}

fn answer(policy: &Policy, revision: TableRevision) -> Response<Body> {
    let mut response = json::answer(StatusCode::OK, policy);
    etag::set(response.headers_mut(), revision);
    response
}

async fn read(app: &App, body: Body) -> Result<PolicyChange, AdminError> {
    let body = app.job_body.up_to(BODY_BYTES_MAX).read(body).await;
    let body = body.map_err(|_| AdminError::NotAPolicy)?;
    Ok(read_body(&body.bytes, &ConfigurableLimits::default())?)
}

fn readable(stored: StoredPolicy) -> Result<StoredPolicy, AdminError> {
    match stored.unreadable {
        Some(text) => Err(AdminError::PolicyUnreadable { text }),
        None => Ok(stored),
    }
}
