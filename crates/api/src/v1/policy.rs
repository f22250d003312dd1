//! `/v1/NAMESPACE/policies`: the queues with a stored policy. `/v1/NAMESPACE/queues/QUEUE/policy`: shows, replaces and
//! changes the policy of a queue.
//!
//! A pool that moves has its own policies; its new jobs are subject to policies of the target pool.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_core::Policy;
use tidegate_core::v1::problem::{InvalidRequest, ProblemCode};
use tidegate_core::v1::queue::{ListQuery, PolicyChange, QueuePolicy};
use tidegate_core::v1::{Page, Precondition};
use tidegate_engine::{PolicyChangeError, VersionMismatch};
use tidegate_store::{Damaged, NamespacedName, TableRevision, TableSetOutcome};

use super::answer::{json_answer, page_answer, page_with_cursor};
use super::error::NativeError;
use super::native_request::NativeRequest;
use super::table_change::condition;
use crate::http::etag;
use crate::http::unread;

pub(super) async fn list(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let query: ListQuery = request.read_query()?;
    let after = query.queue_cursor()?;
    let share = unread::share_of_page(request.unread())?;
    let table = &request.pool().policies;
    table.read().await?;
    let limit = usize::from(query.limit.get());
    // One more, which tells whether the page is the last one.
    let stored = table.list(&request.namespaces, after.as_ref(), limit + 1);
    let stored = stored.into_iter().map(|(queue, row)| QueuePolicy {
        namespace: queue.namespace,
        queue: queue.queue,
        unreadable: row.value.as_ref().err().map(|damaged| damaged.text.clone()),
        policy: row.value.unwrap_or_default(),
    });
    let (items, next) = page_with_cursor(stored, limit, |last| {
        format!("{}/{}", last.namespace, last.queue)
    })?;
    Ok(page_answer(&Page { items, next }, share))
}

pub(super) async fn show(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let stored = request.pool().policies.get(&request.queue()?).await?;
    let (policy, revision) = stored.readable().map_err(unreadable)?;
    Ok(answer(&policy, revision))
}

/// Replaces the policy: fields that are absent have their defaults.
pub(super) async fn set(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    store(request, true).await
}

/// Changes the fields in the body.
pub(super) async fn patch(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    store(request, false).await
}

async fn store(mut request: NativeRequest, replaces: bool) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let queue = request.queue()?;
    let expected = match condition(&request, "policy")? {
        Precondition::None | Precondition::Exists => None,
        Precondition::Is(revision) => Some(revision),
        Precondition::Missing => Some(TableRevision::default()),
    };
    let body: PolicyChange = request.read_json().await?;
    check_limit(&request, &body).await?;
    let table = &request.pool().policies;
    if replaces {
        let new = body.apply_to(&Policy::default())?;
        return match table.set(&queue, &new, expected).await? {
            TableSetOutcome::Done(revision) => Ok(answer(&new, revision)),
            TableSetOutcome::VersionMismatch(_) => Err(VersionMismatch.into()),
        };
    }
    let merge = |stored: Policy| body.apply_to(&stored);
    let changed = table.change(&queue, expected, merge).await;
    let (policy, revision) = changed.map_err(|error| match error {
        PolicyChangeError::VersionMismatch => VersionMismatch.into(),
        PolicyChangeError::Unreadable(damaged) => unreadable(damaged),
        PolicyChangeError::Rejected(invalid) => invalid.into(),
        PolicyChangeError::Store(error) => error.into(),
    })?;
    Ok(answer(&policy, revision))
}

/// A policy that names no limit by mistake would limit nothing.
async fn check_limit(request: &NativeRequest, change: &PolicyChange) -> Result<(), NativeError> {
    let Some(limit) = change.limit.value() else {
        return Ok(());
    };
    let namespace = request.queue()?.namespace;
    let detail =
        format!("there is no limit {limit}; set it first: PUT /v1/{namespace}/limits/{limit}");
    let name = NamespacedName {
        namespace,
        name: limit.as_str().to_owned(),
    };
    match request.pool().policies.limit(&name).await? {
        Some(_) => Ok(()),
        None => Err(InvalidRequest::of_field("limit", detail).into()),
    }
}

fn unreadable(damaged: Damaged) -> NativeError {
    let detail = format!(
        "the stored policy is damaged, and the defaults apply; replace it with PUT; stored is {:?}",
        damaged.text
    );
    NativeError::new(ProblemCode::PolicyUnreadable, detail)
}

fn answer(policy: &Policy, revision: TableRevision) -> Response<Body> {
    let mut response = json_answer(StatusCode::OK, policy);
    etag::set(response.headers_mut(), revision);
    response
}
