//! Changes of entries of tables, such as relays and schedules, that depend on the revision of the stored entry.

use std::time::Duration;

use axum::http::header;
use tidegate_api_types::problem::{InvalidRequest, ProblemCode};
use tidegate_store::TableRevision;
use tokio::time::sleep;

use super::error::NativeError;
use super::native_request::NativeRequest;
use crate::http::etag::{Precondition, precondition};

/// How often a change is applied to an entry that other clients change at the same time.
pub(super) const CHANGE_ATTEMPTS: u32 = 20;

/// A further attempt waits up to so long, times the attempts before it.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Waits before a further attempt, for a random time: the same clients would otherwise meet again and again.
pub(super) async fn pause_before(attempt: u32) {
    if attempt > 0 {
        sleep(PAUSE_MAX.mul_f64(f64::from(attempt) * rand::random::<f64>())).await;
    }
}

/// What the headers of a change require. `entry` is what is changed, such as "relay".
pub(super) fn condition(
    request: &NativeRequest,
    entry: &str,
) -> Result<Precondition<TableRevision>, NativeError> {
    precondition(&request.headers).map_err(|_| {
        let is_none = request.headers.contains_key(header::IF_NONE_MATCH);
        let field = if is_none { "if-none-match" } else { "if-match" };
        let detail = format!(
            "If-Match should be the ETag of the {entry}, in quotes, or *; If-None-Match should be *; send one of them"
        );
        InvalidRequest::of_field(field, detail).into()
    })
}

/// Checks the condition, and returns the revision that the stored entry must have still when it is changed; `None` = any, since
/// the stored one is damaged. `stored` is `None` if there is no entry, and has no revision if it is damaged.
pub(super) fn expected_revision(
    condition: Precondition<TableRevision>,
    stored: Option<Option<TableRevision>>,
) -> Result<Option<TableRevision>, NativeError> {
    let version = stored.map(Option::unwrap_or_default);
    match condition.holds(version.as_ref()) {
        true => Ok(stored.unwrap_or(Some(TableRevision::default()))),
        false => Err(NativeError::of(ProblemCode::VersionMismatch)),
    }
}
