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

/// The longest time for which a consumer waits for all its checks of slow sources together, without the time by which
/// its timers are late. Once it has jobs, it waits as long again, by the clock, for the checks that fill up its claim.
pub(super) const LOOK_IN_ORDER_MAX: Duration = Duration::from_millis(250);

/// The first part of that time, after which a consumer looks whether its runtime is late. While it is not, parts are
/// doubled up to [`SLICE_MAX`]. A late runtime wakes a consumer once in each turn, in which it runs all ready tasks; a
/// call to Redis needs some ten turns.
const SLICE: Duration = Duration::from_millis(5);
const SLICE_MAX: Duration = Duration::from_millis(20);

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
        if let Ok(outcome) = timeout(prompt, &mut look).await {
            return Some(outcome);
        }
        for server in shared.busy_servers(source) {
            if !self.servers.contains(&server) {
                self.servers.push(server);
            }
        }
        let mut slice = SLICE;
        while !self.time_left.is_zero() {
            let limit = slice.min(self.time_left);
            let since = Instant::now();
            let looked = timeout(limit, &mut look).await;
            let took = since.elapsed();
            // The time by which a timer is late is not the server's.
            self.time_left -= took.min(limit);
            if let Ok(outcome) = looked {
                return Some(outcome);
            }
            slice = match took < limit + SLICE {
                true => SLICE_MAX.min(slice * 2),
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

    /// A source of an unknown pool, so that no server is known to be slow, and a consumer that has checked none.
    fn setting() -> (Shared, Source, SlowServers) {
        let shared = Shared::new(&BTreeMap::new(), Duration::from_secs(1));
        (shared, Source::new("default", "ns/q"), SlowServers::new())
    }

    async fn looked(after: Duration) -> SeatOutcome {
        sleep(after).await;
        SeatOutcome::NothingYet
    }

    #[tokio::test(start_paused = true)]
    async fn slow_checks_share_one_time_limit_and_prompt_ones_do_not_count() {
        let (shared, source, mut slow) = setting();
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

    /// A check in a process that is on time at first. The answer is found after this number of late turns.
    async fn looked_late(on_time: Duration, turns: u32) -> SeatOutcome {
        sleep(on_time).await;
        for _ in 0..turns {
            advance(TURN).await;
            yield_now().await;
        }
        SeatOutcome::NothingYet
    }

    #[tokio::test(start_paused = true)]
    async fn checks_that_are_late_because_of_this_process_are_awaited() {
        let (shared, source, mut slow) = setting();
        for number in 0..4 {
            let late = looked_late(Duration::ZERO, 12);
            let look = slow.wait(&shared, &source, late).await;
            assert_eq!(look, Some(SeatOutcome::NothingYet), "check {number}");
        }
        let (shared, source, mut slow) = setting();
        let late_then = looked_late(PROMPT + SLICE * 7, 12);
        let look = slow.wait(&shared, &source, late_then).await;
        assert_eq!(look, Some(SeatOutcome::NothingYet));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_delays_a_late_process_for_a_limited_time() {
        let (shared, source, mut slow) = setting();
        let silent = || looked_late(Duration::ZERO, 1000);
        let begin = Instant::now();
        assert_eq!(slow.wait(&shared, &source, silent()).await, None);
        // One turn for each part of the time, and one or two until a prompt server would have answered.
        let turns = LOOK_IN_ORDER_MAX.div_duration_f64(SLICE) + 2.0;
        let took = begin.elapsed();
        assert!(took <= TURN.mul_f64(turns), "{took:?}");
        assert_eq!(slow.wait(&shared, &source, silent()).await, None);
        assert!(begin.elapsed() - took <= TURN * 2, "{:?}", begin.elapsed());
    }
}
