//! Servers that answer one consumer slowly, and how long it waits for them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::seat::News;
use super::{Inner, LOOK_IN_ORDER_MAX, Source};

/// A server that answers a look into a lane within this time is not slow.
const PROMPT: Duration = Duration::from_millis(20);

/// The servers that have answered looks of one consumer slowly. It waits for [`LOOK_IN_ORDER_MAX`], for all of them
/// together: a server far away would keep it from the jobs of the others for as long, once for each queue.
pub(super) struct SlowServers {
    servers: Vec<Arc<str>>,
    left: Duration,
}

impl SlowServers {
    pub(super) const fn new() -> Self {
        Self {
            servers: Vec::new(),
            left: LOOK_IN_ORDER_MAX,
        }
    }

    /// Whether a source is on one of them, and they have had their time.
    pub(super) fn are_over(&self, inner: &Inner, source: &Source) -> bool {
        self.left.is_zero() && inner.is_on(source, &self.servers)
    }

    /// Waits for a look into a source; `None` if it is not to be waited for any longer.
    pub(super) async fn wait(
        &mut self,
        inner: &Inner,
        source: &Source,
        look: impl Future<Output = News>,
    ) -> Option<News> {
        let mut look = pin!(look);
        let prompt = PROMPT * u32::from(inner.lanes_of(source));
        if let Ok(news) = timeout(prompt, &mut look).await {
            return Some(news);
        }
        self.servers.extend(inner.busy_servers(source));
        let since = Instant::now();
        let looked = timeout(self.left, look).await.ok();
        self.left = self.left.saturating_sub(since.elapsed());
        looked
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tokio::time::sleep;

    use super::super::Waiters;
    use super::*;

    async fn looked(after: Duration) -> News {
        sleep(after).await;
        News::NothingYet
    }

    #[tokio::test(start_paused = true)]
    async fn slow_looks_have_their_time_together_and_prompt_ones_as_often_as_they_like() {
        let Waiters(inner) = Waiters::new(&BTreeMap::new(), Duration::from_secs(1));
        let source = Source::new("default", "ns/q");
        let mut slow = SlowServers::new();
        let begin = Instant::now();
        for _ in 0..100 {
            let prompt = slow.wait(&inner, &source, looked(PROMPT / 2)).await;
            assert_eq!(prompt, Some(News::NothingYet));
        }
        assert_eq!(begin.elapsed(), PROMPT / 2 * 100);
        let begin = Instant::now();
        let in_all = PROMPT + LOOK_IN_ORDER_MAX * 2 / 3;
        let mut answered = 0;
        for _ in 0..10 {
            let look = slow.wait(&inner, &source, looked(in_all)).await;
            answered += usize::from(look.is_some());
        }
        assert_eq!(answered, 1);
        let took = begin.elapsed();
        assert!(
            took <= PROMPT * 10 + LOOK_IN_ORDER_MAX + Duration::from_millis(10),
            "{took:?}"
        );
    }
}
