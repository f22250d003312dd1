//! Durations in sentences.

use jiff::SignedDuration;

/// A duration such as `350ms` or `2m 5s`.
pub(crate) fn duration_text(ms: u64) -> String {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    // Milliseconds matter only below a second.
    let duration = match ms {
        ..1000 => SignedDuration::from_millis(ms),
        _ => SignedDuration::from_secs(ms / 1000),
    };
    format!("{duration:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_easy_to_read() {
        assert_eq!(duration_text(0), "0s");
        assert_eq!(duration_text(350), "350ms");
        assert_eq!(duration_text(125_900), "2m 5s");
    }
}
