//! Bounds how many checks the consumers of one namespace have in flight that name many queues.
//!
//! Without a bound, some hundred consumers of a thousand queues each would start so many checks at once that all other
//! requests wait for seconds.

use tidegate_core::NamespaceGrant;
use tokio::sync::OwnedSemaphorePermit;

use super::source::Source;
use crate::access::{NamespaceShare, NamespaceShares};

/// The checks of one consumer that need no permit. So consumers of a few queues never wait for others.
const FREE_CHECKS: usize = 8;

/// The most checks beyond [`FREE_CHECKS`] that the consumers of a namespace have in flight. The main thread handles
/// this many, with all their tasks, in about a millisecond.
pub(super) const IN_FLIGHT_MAX: usize = 32;

/// Counts the checks of one consumer. Its sources are of one namespace.
pub(super) struct CheckCounter<'a> {
    shares: &'a NamespaceShares,
    made: usize,
    share: Option<NamespaceShare<'a>>,
}

impl<'a> CheckCounter<'a> {
    pub(super) const fn new(shares: &'a NamespaceShares) -> Self {
        Self {
            shares,
            made: 0,
            share: None,
        }
    }

    /// Waits until the next check may begin. The permit must be held until the check has ended; `None`: it needs none.
    pub(super) async fn next(&mut self, source: &Source) -> Option<OwnedSemaphorePermit> {
        self.made += 1;
        match self.made <= FREE_CHECKS {
            true => None,
            false => self.permits(source, 1).await,
        }
    }

    /// Waits until this number of checks may begin together: at most [`IN_FLIGHT_MAX`]. The permit must be held until
    /// they have ended.
    pub(super) async fn permits(
        &mut self,
        source: &Source,
        count: usize,
    ) -> Option<OwnedSemaphorePermit> {
        let shares = self.shares;
        let share = self.share.get_or_insert_with(|| {
            let namespace = NamespaceGrant::One(source.queue.namespace.clone());
            shares.share(&source.pool, namespace)
        });
        share.acquire(count).await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_first_checks_of_each_consumer_need_no_permit() {
        let shares = NamespaceShares::new(IN_FLIGHT_MAX);
        let source = Source::new("default", "a/q");
        let mut counters: Vec<_> = (0..3).map(|_| CheckCounter::new(&shares)).collect();
        for counter in &mut counters {
            for _ in 0..FREE_CHECKS {
                assert!(counter.next(&source).now_or_never().unwrap().is_none());
            }
        }
        assert!(shares.is_empty());
        let mut held = Vec::new();
        for number in 0..IN_FLIGHT_MAX {
            let permit = counters[number % 2].next(&source).now_or_never().unwrap();
            held.push(permit.unwrap());
        }
        assert!(counters[2].next(&source).now_or_never().is_none());
        held.pop();
        assert!(counters[2].next(&source).now_or_never().is_some());
        drop((held, counters));
        assert!(shares.is_empty());
    }
}
