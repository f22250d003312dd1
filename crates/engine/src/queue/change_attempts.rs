//! Changes of a stored entry that other clients change at the same time: the entry is read and changed again.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tokio::time::sleep;

/// The second attempt waits for so long, and at random up to twice as long: the same clients would otherwise meet again and
/// again.
const FIRST_DELAY: Duration = Duration::from_millis(5);
/// The delays double up to this: about 100 clients that change one entry all the time get their turns.
const LONGEST_DELAY: Duration = Duration::from_millis(320);
/// With the first one there are 20 attempts, over some 6 s.
const FURTHER_ATTEMPTS: usize = 19;

/// The attempts of one change.
#[derive(Debug)]
pub struct ChangeAttempts {
    delays: ExponentialBackoff,
    has_begun: bool,
}

impl Default for ChangeAttempts {
    fn default() -> Self {
        let delays = ExponentialBuilder::new()
            .with_min_delay(FIRST_DELAY)
            .with_max_delay(LONGEST_DELAY)
            .with_jitter()
            .with_max_times(FURTHER_ATTEMPTS);
        Self {
            delays: delays.build(),
            has_begun: false,
        }
    }
}

impl ChangeAttempts {
    /// Waits for the next attempt, at once for the first one. Returns whether there is one.
    pub async fn next(&mut self) -> bool {
        if !std::mem::replace(&mut self.has_begun, true) {
            return true;
        }
        let Some(delay) = self.delays.next() else {
            return false;
        };
        sleep(delay).await;
        true
    }
}
