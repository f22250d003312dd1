//! The quotas of namespaces:
//!
//! * `GET /namespaces`: all quotas, and the defaults of the settings.
//! * `GET`, `PUT` and `DELETE /namespaces/NAMESPACE`. `PUT` creates or replaces a quota: an object with some of the limits
//!   of `[namespace_limits]`. A namespace without a quota has the defaults.
//!
//! They are in the Redis of the tokens, and each pool applies them to its own jobs and queues.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Serialize;
use tidegate_core::v1::namespace::{NamespaceQuota, NamespaceQuotas};
use tidegate_core::{Namespace, NamespaceLimits};
use tidegate_engine::ChangeAttempts;
use tidegate_store::{Row, TableRevision, TableSetOutcome};

use super::error::AdminError;
use crate::app::App;
use crate::http::{etag, json};

const BODY_BYTES_MAX: usize = 64 * 1024;

pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Response<Body>, AdminError> {
    let rows = app.engine.namespaces.all().await?;
    let mut quotas = NamespaceQuotas {
        defaults: app.engine.namespaces.defaults(),
        items: Vec::new(),
        damaged: Vec::new(),
    };
    for (namespace, row) in rows.by_name {
        match row.readable() {
            Ok((quota, revision)) => quotas.items.push(shown(&app, &namespace, quota, revision)),
            Err(_) => quotas.damaged.push(namespace.to_string()),
        }
    }
    Ok(json::answer(StatusCode::OK, &quotas))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(namespace): Path<String>,
) -> Result<Response<Body>, AdminError> {
    let namespace = Namespace::try_from(namespace.as_str())?;
    let stored = app.engine.namespaces.get(&namespace).await?;
    let (quota, revision) = stored.readable().map_err(|_| AdminError::QuotaUnreadable)?;
    Ok(answer(&app, &namespace, quota, revision))
}

pub(super) async fn set(
    State(app): State<Arc<App>>,
    Path(namespace): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, AdminError> {
    let namespace = Namespace::try_from(namespace.as_str())?;
    let body = app.job_body.up_to(BODY_BYTES_MAX).read(body).await;
    let body = body.map_err(|_| AdminError::BodyUnreadable)?;
    let quota: NamespaceLimits = json::parse_object(&body.bytes)
        .map_err(|error| AdminError::InvalidQuota(error.to_string()))?;
    quota
        .check()
        .map_err(|error| AdminError::InvalidQuota(error.to_string()))?;
    let revision = change(&app, &namespace, &headers, Some(&quota)).await?;
    tracing::info!(%namespace, ?quota, %revision, "set the quota of a namespace");
    Ok(answer(&app, &namespace, quota, revision))
}

#[derive(Serialize)]
struct Deleted {
    outcome: &'static str,
}

pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path(namespace): Path<String>,
    headers: HeaderMap,
) -> Result<Response<Body>, AdminError> {
    let namespace = Namespace::try_from(namespace.as_str())?;
    change(&app, &namespace, &headers, None).await?;
    tracing::info!(%namespace, "deleted the quota of a namespace");
    let deleted = Deleted { outcome: "deleted" };
    Ok(json::answer(StatusCode::OK, &deleted))
}

/// Sets or removes a quota, if the stored one is as the headers require. One that cannot be read is replaced.
async fn change(
    app: &App,
    namespace: &Namespace,
    headers: &HeaderMap,
    quota: Option<&NamespaceLimits>,
) -> Result<TableRevision, AdminError> {
    let condition = etag::precondition(headers).map_err(|_| AdminError::NotAnETag)?;
    let table = &app.engine.namespaces;
    let mut attempts = ChangeAttempts::new(condition);
    loop {
        attempts
            .next()
            .await
            .map_err(|_| AdminError::VersionMismatch)?;
        let stored = table.get(namespace).await?;
        let stored = Some(stored).filter(is_stored);
        let expected = attempts.expected(stored.as_ref());
        let expected = expected.map_err(|_| AdminError::VersionMismatch)?;
        if let TableSetOutcome::Done(revision) = table.set(namespace, quota, expected).await? {
            return Ok(revision);
        }
    }
}

fn is_stored(row: &Row<NamespaceLimits>) -> bool {
    row.revision.is_none_or(|revision| !revision.is_none())
}

fn shown(
    app: &App,
    namespace: &Namespace,
    quota: NamespaceLimits,
    revision: TableRevision,
) -> NamespaceQuota {
    NamespaceQuota {
        namespace: namespace.to_string(),
        revision: revision.to_string(),
        quota,
        limits: quota.or(app.engine.namespaces.defaults()),
    }
}

fn answer(
    app: &App,
    namespace: &Namespace,
    quota: NamespaceLimits,
    revision: TableRevision,
) -> Response<Body> {
    let mut response = json::answer(StatusCode::OK, &shown(app, namespace, quota, revision));
    etag::set(response.headers_mut(), revision);
    response
}
