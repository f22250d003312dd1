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
    #[should_panic(expected = "never: not within 20ms; last seen: nothing")]
    async fn the_panic_shows_what_was_seen_last() {
        eventually("never", Duration::from_millis(20), async || {
            Err::<(), _>("nothing")
        })
        .await;
    }
}
