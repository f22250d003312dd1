//! `/v1/NAMESPACE/relays`: shows, sets and deletes the relays of a namespace. No answer has their secrets.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_core::Scope;
use tidegate_core::v1::problem::ProblemCode;
use tidegate_core::v1::queue::ListQuery;
use tidegate_core::v1::relay::{RelayConfig, RelayDetails, RelaySourceConfig};
use tidegate_core::v1::{DeleteAnswer, Page};
use tidegate_engine::ChangeAttempts;
use tidegate_store::{NamespacedName, Row, StoredRelayReport, TableRevision, TableSetOutcome};

use super::answer::{json_answer, page_answer, page_of, set_status};
use super::error::NativeError;
use super::native_request::NativeRequest;
use super::table_change::condition;
use crate::http::{etag, unread};
use crate::relay_status::{relay_report, relay_status};

/// The most bytes of the settings of a relay: more than all its texts have.
const BODY_BYTES_MAX: usize = 256 * 1024;

pub(super) async fn list(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let query: ListQuery = request.read_query()?;
    let after = query.cursor.as_ref().map(|cursor| cursor.as_str());
    let share = unread::share_of_page(request.unread())?;
    let relays = &request.app.engine.relays;
    let own = relays.of(request.namespace()?).await?;
    let behind = own
        .into_iter()
        .filter(|(key, _)| after.is_none_or(|after| *key.name > *after));
    let shown = behind.filter_map(|(key, row)| {
        let (config, revision) = row.readable().ok()?;
        details(&key, config, revision, None)
    });
    let limit = usize::from(query.limit.get());
    let (mut items, others_follow) = page_of(shown, limit);
    let namespace = request.namespace()?;
    let keys = items.iter().map(|item| NamespacedName {
        namespace: namespace.clone(),
        name: item.name.as_str().to_owned(),
    });
    let reports = relays.reports(&keys.collect::<Vec<_>>()).await?;
    for (item, report) in items.iter_mut().zip(reports) {
        item.status = relay_status(&item.config, &item.revision, report.as_ref());
    }
    // The last errors in the statuses may take the page beyond its size.
    let (items, is_cut) = page_of(items.into_iter(), limit);
    let has_more = others_follow || is_cut;
    let last = items.last().filter(|_| has_more);
    let next = last.map(|last| last.name.as_str().parse());
    let answer = Page {
        next: next.transpose().map_err(|_| NativeError::internal())?,
        items,
    };
    Ok(page_answer(&answer, share))
}

pub(super) async fn show(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let key = request.relay()?;
    let found = find(&request, &key).await?.ok_or_else(not_found)?;
    let report = relay_report(&request.app.engine, &key).await?;
    let unreadable = |_| NativeError::of(ProblemCode::RelayUnreadable);
    let (config, revision) = found.readable().map_err(unreadable)?;
    let shown = details(&key, config, revision, report.as_ref());
    answer(StatusCode::OK, shown, revision)
}

/// Creates the relay, or replaces it as a whole. Secrets that are absent stay.
pub(super) async fn set(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let key = request.relay()?;
    let condition = condition(&request, "relay")?;
    let body: RelayConfig = request.read_json_up_to(BODY_BYTES_MAX).await?;
    if let RelaySourceConfig::Queue(_) = body.source {
        // The relay reads payloads of the namespace, on behalf of this key.
        request.need(Scope::Consume)?;
    }
    let mut attempts = ChangeAttempts::new(condition);
    loop {
        attempts.next().await?;
        let stored = find(&request, &key).await?;
        let expected = attempts.expected(stored.as_ref())?;
        let status = set_status(stored.is_some());
        let mut config = body.clone();
        if let Some(Ok(stored)) = stored.map(|row| row.value) {
            config.keep_secrets_of(&stored)?;
        }
        config.check_secrets()?;
        config.drop_empty_secrets();
        let relays = &request.app.engine.relays;
        let set = relays.set(&key, Some(&config), expected).await?;
        if let TableSetOutcome::Done(revision) = set {
            tracing::info!(relay = %key, %revision, "set a relay");
            return answer(status, details(&key, config, revision, None), revision);
        }
    }
}

pub(super) async fn delete(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let key = request.relay()?;
    let condition = condition(&request, "relay")?;
    let mut attempts = ChangeAttempts::new(condition);
    loop {
        attempts.next().await?;
        let stored = find(&request, &key).await?.ok_or_else(not_found)?;
        let expected = attempts.expected(Some(&stored))?;
        let removed = request.app.engine.relays.set(&key, None, expected).await?;
        if let TableSetOutcome::Done(_) = removed {
            tracing::info!(relay = %key, "deleted a relay");
            return Ok(json_answer(StatusCode::OK, &DeleteAnswer::Deleted));
        }
    }
}

async fn find(
    request: &NativeRequest,
    key: &NamespacedName,
) -> Result<Option<Row<RelayConfig>>, NativeError> {
    Ok(request.app.engine.relays.get(key).await?)
}

fn not_found() -> NativeError {
    NativeError::of(ProblemCode::RelayNotFound)
}

/// A relay as it is shown; `None` if its name is not valid.
fn details(
    key: &NamespacedName,
    config: RelayConfig,
    revision: TableRevision,
    report: Option<&StoredRelayReport>,
) -> Option<RelayDetails> {
    let revision = revision.to_string();
    Some(RelayDetails {
        name: key.name.parse().ok()?,
        status: relay_status(&config, &revision, report),
        revision,
        secrets: config.secret_names(),
        config: config.without_secrets(),
    })
}

fn answer(
    status: StatusCode,
    shown: Option<RelayDetails>,
    revision: TableRevision,
) -> Result<Response<Body>, NativeError> {
    let shown = shown.ok_or_else(NativeError::internal)?;
    let mut response = json_answer(status, &shown);
    etag::set(response.headers_mut(), revision);
    Ok(response)
}
