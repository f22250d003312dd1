//! The header `Retry-After`.

use std::time::{Duration, SystemTime};

use hyper::HeaderMap;
use hyper::header::RETRY_AFTER;

/// The delay that an answer sets, in seconds or until a date. A date that has passed is no delay.
#[must_use]
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the date is that of a wall clock"
    )]
    let now = SystemTime::now();
    Some(date.duration_since(now).unwrap_or_default())
}
