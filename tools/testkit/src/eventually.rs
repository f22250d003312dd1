//! Waits for a condition, instead of for a fixed time.

use std::fmt::Display;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Repeats `look` until it returns `Ok`, and returns that value.
///
/// # Panics
/// If `within` has passed. The message ends with the last error of `look`.
pub async fn eventually<T, Seen: Display>(
    what: &str,
    within: Duration,
    mut look: impl AsyncFnMut() -> Result<T, Seen>,
) -> T {
    let deadline = Instant::now() + within;
    loop {
        match look().await {
            Ok(value) => return value,
            Err(seen) if Instant::now() >= deadline => {
                panic!("{what}: not within {within:?}; last seen: {seen}")
            }
            Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

/// Repeats `look` until it returns `Ok`, and returns that value. For work whose duration depends on the machine: there
/// is no limit as long as it goes on.
///
/// # Panics
/// If `look` returned the same error for as long as `stalled`. The message ends with that error.
pub async fn eventually_unless_stalled<T, Seen: Display + PartialEq>(
    what: &str,
    stalled: Duration,
    mut look: impl AsyncFnMut() -> Result<T, Seen>,
) -> T {
    let mut last: Option<(Seen, Instant)> = None;
    loop {
        let seen = match look().await {
            Ok(value) => return value,
            Err(seen) => seen,
        };
        match &last {
            Some((before, since)) if *before == seen => {
                assert!(
                    since.elapsed() < stalled,
                    "{what}: stalled for {stalled:?} at: {seen}"
                );
            }
            _ => last = Some((seen, Instant::now())),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn repeats_until_the_condition_holds() {
        let mut looks = 0;
        let third = async || {
            looks += 1;
            if looks == 3 { Ok("there") } else { Err(looks) }
        };
        assert_eq!(
            eventually("third", Duration::from_secs(5), third).await,
            "there"
        );
    }

    #[tokio::test]
    async fn goes_on_for_longer_than_the_stall_while_there_is_progress() {
        let mut looks = 0;
        let last = async || {
            looks += 1;
            if looks == 30 { Ok(looks) } else { Err(looks) }
        };
        let stalled = POLL_INTERVAL * 10;
        assert_eq!(eventually_unless_stalled("last", stalled, last).await, 30);
    }

    #[tokio::test]
    #[should_panic(expected = "never: stalled for 20ms at: 3 left")]
    async fn without_progress_the_panic_shows_what_is_left() {
        eventually_unless_stalled("never", Duration::from_millis(20), async || {
            Err::<(), _>("3 left")
        })
        .await;
    }

    #[tokio::test]
    #[should_panic(expected = "never: not within 20ms; last seen: nothing")]
    async fn the_panic_shows_what_was_seen_last() {
        eventually("never", Duration::from_millis(20), async || {
            Err::<(), _>("nothing")
        })
        .await;
    }
}
