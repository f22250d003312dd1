//! `PUT /api/NAMESPACE/QUEUE/deadletter`: the oldest dead jobs are ready again, with one try each.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde::Serialize;
use tidegate_core::DURATION_MS_MAX;

use super::error::Refusal;
use super::json;
use super::query::Query;
use super::request::Asked;
use super::scope::QueueScope;
use crate::app::App;

#[derive(Serialize)]
struct Respawned {
    count: u64,
    msg: &'static str,
}

pub(super) async fn respawn(app: Arc<App>, asked: Asked) -> Result<Response<Body>, Refusal> {
    let scope = QueueScope::open(&app, &asked).await?;
    let query = asked.query();
    let limit = limit(&query)?;
    let ttl_ms = ttl_ms(&query, app.job_defaults().ttl_seconds)?;
    let count = scope.pool.respawn(&scope.queue, limit, ttl_ms).await?;
    let respawned = Respawned {
        count,
        msg: "respawned",
    };
    Ok(json::answer(StatusCode::OK, &respawned))
}

/// How many dead jobs are meant: 1 to the largest signed number of 64 bits, 1 by default.
pub(super) fn limit(query: &Query<'_>) -> Result<u64, Refusal> {
    let limit = query.number::<i64>("limit", 1)?;
    u64::try_from(limit)
        .ok()
        .filter(|limit| *limit > 0)
        .ok_or(Refusal::BadNumber("limit"))
}

/// The wire allows lives of billions of years; they are cut to the longest there is, some centuries.
pub(super) fn ttl_ms(query: &Query<'_>, default_seconds: u32) -> Result<u64, Refusal> {
    let seconds = query.number::<i64>("ttl", i64::from(default_seconds))?;
    let ttl_ms = seconds.unsigned_abs().saturating_mul(1000);
    Ok(ttl_ms.min(DURATION_MS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_positive_signed_numbers() {
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
    fn lives_are_cut_to_what_can_be_stored() {
        let read = |text: &str| ttl_ms(&Query::new(text), 60).ok();
        assert_eq!(read(""), Some(60_000));
        assert_eq!(read("ttl=0"), Some(0));
        assert_eq!(read("ttl=9223372036854775807"), Some(DURATION_MS_MAX));
        assert_eq!(read("ttl=-1"), None);
    }
}
