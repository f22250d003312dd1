//! `PUT /api/NAMESPACE/QUEUE/deadletter`: makes up to `limit` dead jobs ready again, 1 by default, with one try each;
//! the oldest of each lane first.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde::Serialize;
use tidegate_core::limits::DURATION_MS_MAX;
use tidegate_store::DueTimes;

use super::error::ApiError;
use super::scope::QueueScope;
use crate::app::App;
use crate::http::json;
use crate::http::query::Query;
use crate::http::request::ApiRequest;

#[derive(Serialize)]
struct RespawnedBody {
    count: u64,
    msg: &'static str,
}

pub(super) async fn respawn(
    app: Arc<App>,
    api_request: ApiRequest,
) -> Result<Response<Body>, ApiError> {
    let scope = QueueScope::open(&app, &api_request).await?;
    let query = api_request.query();
    let limit = limit(&query)?;
    let ttl_ms = ttl_ms(&query, app.job_defaults().ttl_seconds)?;
    let at_once = DueTimes::default();
    let count = scope
        .pool
        .respawn(&scope.queue, limit, ttl_ms, at_once)
        .await?;
    let respawned = RespawnedBody {
        count,
        msg: "respawned",
    };
    Ok(json::answer(StatusCode::OK, &respawned))
}

/// The parameter `limit`: 1 to `i64::MAX`, 1 by default.
///
/// # Errors
/// It is not a number in this range.
pub(super) fn limit(query: &Query<'_>) -> Result<u64, ApiError> {
    let limit = query.number::<i64>("limit", 1)?;
    u64::try_from(limit)
        .ok()
        .filter(|limit| *limit > 0)
        .ok_or(ApiError::BadNumber("limit"))
}

/// The parameter `ttl` in ms, at most [`DURATION_MS_MAX`], to which longer values are reduced. lmstfy allows values up
/// to `i64::MAX` seconds.
///
/// # Errors
/// It is not a number from 0 to `i64::MAX`.
pub(super) fn ttl_ms(query: &Query<'_>, default_seconds: u32) -> Result<u64, ApiError> {
    let seconds = query.number::<i64>("ttl", i64::from(default_seconds))?;
    let ttl_ms = seconds.unsigned_abs().saturating_mul(1000);
    Ok(ttl_ms.min(DURATION_MS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_positive_signed_64_bit_numbers() {
        let read = |text: &str| limit(&Query::new(text)).ok();
        assert_eq!(read(""), Some(1));
        assert_eq!(
            read("limit=9223372036854775807"),
            Some(i64::MAX.unsigned_abs())
        );
        for bad in ["limit=", "limit=0", "limit=-1", "limit=9223372036854775808"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn long_ttls_are_reduced_to_the_longest_duration() {
        let read = |text: &str| ttl_ms(&Query::new(text), 60).ok();
        assert_eq!(read(""), Some(60_000));
        assert_eq!(read("ttl=0"), Some(0));
        assert_eq!(read("ttl=9223372036854775807"), Some(DURATION_MS_MAX));
        assert_eq!(read("ttl=-1"), None);
    }
}
