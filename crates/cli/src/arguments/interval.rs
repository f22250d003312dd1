//! The time between two looks.

use tidegate::DurationMs;

/// A shorter time would load a server for nothing.
const INTERVAL_MS_MIN: u64 = 20;

/// Reads the time between two looks.
///
/// # Errors
/// It is no duration, or too short.
pub(crate) fn interval(text: &str) -> Result<DurationMs, String> {
    let interval: DurationMs = text.parse().map_err(|error| format!("{error}"))?;
    match interval.as_ms() >= INTERVAL_MS_MIN {
        true => Ok(interval),
        false => Err(format!("it is at least {INTERVAL_MS_MIN}ms")),
    }
}
