//! `/v1/NAMESPACE/limits`: shows, sets and deletes the limits that queues of a namespace share.
//!
//! A pool that moves has its own limits, as it has its own policies.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_core::Rate;
use tidegate_core::v1::problem::ProblemCode;
use tidegate_core::v1::queue::{LimitDetails, ListQuery};
use tidegate_core::v1::rate::RateChange;
use tidegate_core::v1::{DeleteAnswer, Page};
use tidegate_engine::{ChangeAttempts, LimitRemoved};
use tidegate_store::{NamespacedName, Row, TableRevision, TableSetOutcome};

use super::answer::{json_answer, page_answer, page_with_cursor, set_status};
use super::error::NativeError;
use super::native_request::NativeRequest;
use super::table_change::condition;
use crate::http::{etag, unread};

pub(super) async fn list(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let query: ListQuery = request.read_query()?;
    let share = unread::share_of_page(request.unread())?;
    let after = query.cursor.as_ref().map(|cursor| cursor.as_str());
    let table = &request.pool().policies;
    table.read().await?;
    let of_namespace = table.limits_of(request.namespace()?).into_iter();
    let behind = of_namespace.filter(|(key, _)| after.is_none_or(|after| *key.name > *after));
    let shown = behind.filter_map(|(key, row)| {
        let (rate, revision) = row.readable().ok()?;
        details(&key, rate, revision)
    });
    let limit = usize::from(query.limit.get());
    let (items, next) = page_with_cursor(shown, limit, |last| last.name.as_str().to_owned())?;
    Ok(page_answer(&Page { items, next }, share))
}

pub(super) async fn show(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let key = request.limit()?;
    let stored = find(&request, &key).await?.ok_or_else(not_found)?;
    let unreadable = |_| NativeError::of(ProblemCode::LimitUnreadable);
    let (rate, revision) = stored.readable().map_err(unreadable)?;
    answer(StatusCode::OK, &key, rate, revision)
}

/// Creates the limit, or replaces it.
pub(super) async fn set(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let key = request.limit()?;
    let condition = condition(&request, "limit")?;
    let body: RateChange = request.read_json().await?;
    let rate = body.apply_to(None)?;
    let mut attempts = ChangeAttempts::new(condition);
    loop {
        attempts.next().await?;
        let stored = find(&request, &key).await?;
        let expected = attempts.expected(stored.as_ref())?;
        let status = set_status(stored.is_some());
        let table = &request.pool().policies;
        let set = table.set_limit(&key, rate, expected).await?;
        if let TableSetOutcome::Done(revision) = set {
            tracing::info!(limit = %key, %rate, %revision, "set a limit");
            return answer(status, &key, rate, revision);
        }
    }
}

pub(super) async fn delete(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let key = request.limit()?;
    let condition = condition(&request, "limit")?;
    let mut attempts = ChangeAttempts::new(condition);
    loop {
        attempts.next().await?;
        let stored = find(&request, &key).await?.ok_or_else(not_found)?;
        let expected = attempts.expected(Some(&stored))?;
        match request.pool().policies.remove_limit(&key, expected).await? {
            LimitRemoved::InUse(queue) => {
                let detail = format!(
                    "the policy of the queue {} names the limit; change it first",
                    queue.queue
                );
                return Err(NativeError::new(ProblemCode::LimitInUse, detail));
            }
            LimitRemoved::Set(TableSetOutcome::VersionMismatch(_)) => {}
            LimitRemoved::Set(TableSetOutcome::Done(_)) => {
                tracing::info!(limit = %key, "deleted a limit");
                return Ok(json_answer(StatusCode::OK, &DeleteAnswer::Deleted));
            }
        }
    }
}

async fn find(
    request: &NativeRequest,
    key: &NamespacedName,
) -> Result<Option<Row<Rate>>, NativeError> {
    Ok(request.pool().policies.limit(key).await?)
}

fn not_found() -> NativeError {
    NativeError::of(ProblemCode::LimitNotFound)
}

/// A limit as it is shown; `None` if its name is not valid.
fn details(key: &NamespacedName, rate: Rate, revision: TableRevision) -> Option<LimitDetails> {
    Some(LimitDetails {
        name: key.name.parse().ok()?,
        revision: revision.to_string(),
        rate,
    })
}

fn answer(
    status: StatusCode,
    key: &NamespacedName,
    rate: Rate,
    revision: TableRevision,
) -> Result<Response<Body>, NativeError> {
    let shown = details(key, rate, revision).ok_or_else(NativeError::internal)?;
    let mut response = json_answer(status, &shown);
    etag::set(response.headers_mut(), revision);
    Ok(response)
}
