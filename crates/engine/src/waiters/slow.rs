//! Bounds the time that a consumer waits for slow servers.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::seat::SeatOutcome;
use super::shared::Shared;
use super::source::Source;

/// A server that answers the check of a lane within this time is not slow.
const PROMPT: Duration = Duration::from_millis(20);

/// The longest time for which slow servers delay a consumer: all its checks of slow sources together, not counting time in
/// which this process is late itself, and, once it has jobs, the checks of further sources that fill up its claim.
pub(super) const LOOK_IN_ORDER_MAX: Duration = Duration::from_millis(250);

/// The part of that time after which a consumer looks whether its runtime is late. A late runtime wakes it once in each turn,
/// in which it runs all tasks; a call to Redis needs some ten turns.
const SLICE: Duration = Duration::from_millis(5);

/// The servers that were slow for one consumer. It waits for all of them together for [`LOOK_IN_ORDER_MAX`]. With a
/// limit for each check instead, a distant server would delay the jobs of other servers by that limit for each of its
/// queues.
pub(super) struct SlowServers {
    servers: Vec<Arc<str>>,
    time_left: Duration,
}

impl SlowServers {
    pub(super) const fn new() -> Self {
        Self {
            servers: Vec::new(),
            time_left: LOOK_IN_ORDER_MAX,
        }
    }

    /// Whether the time is used up and a source is on a slow server.
    pub(super) fn is_exhausted_for(&self, shared: &Shared, source: &Source) -> bool {
        self.time_left.is_zero() && shared.is_on(source, &self.servers)
    }

    /// Awaits the check of a source; `None` if the time is used up first.
    pub(super) async fn wait(
        &mut self,
        shared: &Shared,
        source: &Source,
        look: impl Future<Output = SeatOutcome>,
    ) -> Option<SeatOutcome> {
        let mut look = pin!(look);
        let prompt = PROMPT * u32::from(shared.lanes_of(source));
        if let Ok(news) = timeout(prompt, &mut look).await {
            return Some(news);
        }
        self.servers.extend(shared.busy_servers(source));
        let mut slice = SLICE;
        while !self.time_left.is_zero() {
            let limit = slice.min(self.time_left);
            let since = Instant::now();
            let looked = timeout(limit, &mut look).await;
            let took = since.elapsed();
            // The time by which a timer is late is not the server's.
            self.time_left -= took.min(limit);
            if let Ok(news) = looked {
                return Some(news);
            }
            slice = match took < limit + SLICE {
                true => slice * 2,
                false => SLICE,
            };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tokio::task::yield_now;
    use tokio::time::{advance, sleep};

    use super::*;

    fn no_pools() -> Shared {
        Shared::new(&BTreeMap::new(), Duration::from_secs(1))
    }

    async fn looked(after: Duration) -> SeatOutcome {
        sleep(after).await;
        SeatOutcome::NothingYet
    }

    #[tokio::test(start_paused = true)]
    async fn slow_checks_share_one_time_limit_and_prompt_ones_do_not_count() {
        let shared = no_pools();
        let source = Source::new("default", "ns/q");
        let mut slow = SlowServers::new();
        let begin = Instant::now();
        for _ in 0..100 {
            let prompt = slow.wait(&shared, &source, looked(PROMPT / 2)).await;
            assert_eq!(prompt, Some(SeatOutcome::NothingYet));
        }
        assert_eq!(begin.elapsed(), PROMPT / 2 * 100);
        let begin = Instant::now();
        let in_all = PROMPT + LOOK_IN_ORDER_MAX * 2 / 3;
        let mut answered = 0;
        for _ in 0..10 {
            let look = slow.wait(&shared, &source, looked(in_all)).await;
            answered += usize::from(look.is_some());
        }
        assert_eq!(answered, 1);
        let took = begin.elapsed();
        assert!(
            took <= PROMPT * 10 + LOOK_IN_ORDER_MAX + Duration::from_millis(10),
            "{took:?}"
        );
    }

    /// A turn of the runtime of an API with too much to do.
    const TURN: Duration = Duration::from_millis(100);

    /// A check whose answer is found in the last of so many turns of a late runtime.
    async fn looked_late(turns: u32) -> SeatOutcome {
        for _ in 0..turns {
            advance(TURN).await;
            yield_now().await;
        }
        SeatOutcome::NothingYet
    }

    #[tokio::test(start_paused = true)]
    async fn checks_that_are_late_because_of_this_process_are_awaited() {
        let shared = no_pools();
        let source = Source::new("default", "ns/q");
        let mut slow = SlowServers::new();
        for number in 0..4 {
            let look = slow.wait(&shared, &source, looked_late(12)).await;
            assert_eq!(look, Some(SeatOutcome::NothingYet), "check {number}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_delays_a_late_process_for_a_limited_time() {
        let shared = no_pools();
        let source = Source::new("default", "ns/q");
        let mut slow = SlowServers::new();
        let begin = Instant::now();
        let look = slow.wait(&shared, &source, looked_late(1000)).await;
        assert_eq!(look, None);
        let turns = LOOK_IN_ORDER_MAX.div_duration_f64(SLICE) + 4.0;
        let took = begin.elapsed();
        assert!(took <= TURN.mul_f64(2.0 * turns), "{took:?}");
        let again = slow.wait(&shared, &source, looked_late(1000)).await;
        assert_eq!(again, None);
        assert!(begin.elapsed() - took <= TURN * 3, "{:?}", begin.elapsed());
    }
}
