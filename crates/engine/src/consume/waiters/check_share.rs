//! Bounds how many checks the consumers of one namespace have in flight that name many queues.
//!
//! A check costs the main thread of the process and Redis about as much as a request. Without a bound, some hundred
//! consumers of a thousand queues each would start so many checks at once that all other requests wait for seconds.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_core::Namespace;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::source::Source;

/// The checks of one consumer that need no permit. So consumers of a few queues never wait for others.
const FREE_CHECKS: usize = 8;

/// The most checks beyond [`FREE_CHECKS`] that the consumers of a namespace have in flight. The main thread handles this
/// many, with all their tasks, in about a millisecond.
const IN_FLIGHT_MAX: usize = 32;

/// The permits of all namespaces with consumers of more than [`FREE_CHECKS`] queues.
#[derive(Debug, Default)]
pub(super) struct CheckShares(Mutex<HashMap<Tenant, Arc<Semaphore>>>);

/// The pool and the namespace of sources.
type Tenant = (Arc<str>, Namespace);

/// Counts the checks of one consumer. Its sources are of one namespace.
pub(super) struct CheckCounter<'a> {
    shares: &'a CheckShares,
    made: usize,
    share: Option<(Tenant, Arc<Semaphore>)>,
}

impl<'a> CheckCounter<'a> {
    pub(super) const fn new(shares: &'a CheckShares) -> Self {
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

    /// Waits until this number of checks may begin together: at most [`IN_FLIGHT_MAX`]. The permit must be held until they
    /// have ended.
    pub(super) async fn permits(
        &mut self,
        source: &Source,
        count: usize,
    ) -> Option<OwnedSemaphorePermit> {
        let count = u32::try_from(count.min(IN_FLIGHT_MAX)).ok()?;
        let shares = self.shares;
        let (_, share) = self.share.get_or_insert_with(|| {
            let tenant = (Arc::clone(&source.pool), source.queue.namespace.clone());
            let mut shares = shares.0.lock();
            let share = shares
                .entry(tenant.clone())
                .or_insert_with(|| Arc::new(Semaphore::new(IN_FLIGHT_MAX)));
            (tenant, Arc::clone(share))
        });
        // The semaphore is never closed.
        Arc::clone(share).acquire_many_owned(count).await.ok()
    }
}

impl Drop for CheckCounter<'_> {
    /// The last consumer of a namespace removes its entry.
    fn drop(&mut self) {
        if let Some((tenant, share)) = self.share.take() {
            let mut shares = self.shares.0.lock();
            // One is in the table.
            if Arc::strong_count(&share) == 2 {
                shares.remove(&tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_namespace_has_a_bounded_number_of_checks_in_flight_beyond_the_first_of_each_consumer()
     {
        let shares = CheckShares::default();
        let (source, other) = (Source::new("default", "a/q"), Source::new("default", "b/q"));
        let mut counters: Vec<_> = (0..3).map(|_| CheckCounter::new(&shares)).collect();
        for counter in &mut counters {
            for _ in 0..FREE_CHECKS {
                assert!(counter.next(&source).await.is_none());
            }
        }
        assert!(shares.0.lock().is_empty());
        let mut held = Vec::new();
        for number in 0..IN_FLIGHT_MAX {
            let permit = counters[number % 2].next(&source).now_or_never().unwrap();
            held.push(permit.unwrap());
        }
        assert!(counters[2].next(&source).now_or_never().is_none());
        let mut elsewhere = CheckCounter::new(&shares);
        for _ in 0..=FREE_CHECKS {
            assert!(elsewhere.next(&other).now_or_never().is_some());
        }
        held.pop();
        assert!(counters[2].next(&source).now_or_never().is_some());
        drop((held, counters, elsewhere));
        assert!(shares.0.lock().is_empty());
    }
}
