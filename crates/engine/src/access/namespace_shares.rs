//! Bounds how much costly work the requests of one namespace have in flight.
//!
//! A check of a queue, or a page of a list, costs the main thread of the process and Redis milliseconds. Without a
//! bound, one namespace could start so many at once that the requests of all others wait for seconds.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_core::NamespaceGrant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The permits of all namespaces that have work of one kind.
#[derive(Debug)]
pub struct NamespaceShares {
    /// The permits of each namespace.
    permits: usize,
    in_use: Mutex<HashMap<PoolNamespace, Arc<Semaphore>>>,
}

/// The name of a pool, and a namespace in it, or all for requests that are for all.
type PoolNamespace = (Arc<str>, NamespaceGrant);

/// The permits of one namespace. The last share that is dropped removes the namespace from the table.
#[derive(Debug)]
pub struct NamespaceShare<'a> {
    shares: &'a NamespaceShares,
    namespace: PoolNamespace,
    semaphore: Arc<Semaphore>,
}

impl NamespaceShares {
    /// Each namespace has this number of permits: at least 1.
    pub fn new(permits: usize) -> Self {
        Self {
            permits: permits.max(1),
            in_use: Mutex::default(),
        }
    }

    /// The permits of a namespace of a pool. Requests for all namespaces have permits of their own.
    pub fn share(&self, pool: &Arc<str>, namespace: NamespaceGrant) -> NamespaceShare<'_> {
        let namespace = (Arc::clone(pool), namespace);
        let mut in_use = self.in_use.lock();
        let semaphore = in_use
            .entry(namespace.clone())
            .or_insert_with(|| Arc::new(Semaphore::new(self.permits)));
        NamespaceShare {
            shares: self,
            namespace,
            semaphore: Arc::clone(semaphore),
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.in_use.lock().is_empty()
    }
}

impl NamespaceShare<'_> {
    /// Waits until `count` pieces of work may begin together: at most the number of permits. The permit must be held
    /// until they have ended. Those who came first are served first.
    pub async fn acquire(&self, count: usize) -> Option<OwnedSemaphorePermit> {
        let count = u32::try_from(count.min(self.shares.permits)).ok()?;
        // The semaphore is never closed.
        let semaphore = Arc::clone(&self.semaphore);
        semaphore.acquire_many_owned(count).await.ok()
    }
}

impl Drop for NamespaceShare<'_> {
    fn drop(&mut self) {
        let mut in_use = self.shares.in_use.lock();
        // One is in the table, one here. Permits have their own.
        if Arc::strong_count(&self.semaphore) == 2 {
            in_use.remove(&self.namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_namespace_has_a_bounded_number_of_permits_and_others_have_their_own() {
        let shares = NamespaceShares::new(2);
        let pool: Arc<str> = "default".into();
        let [a, b] = ["a", "b"].map(|name| NamespaceGrant::try_from(name).unwrap());
        let (first, second) = (
            shares.share(&pool, a.clone()),
            shares.share(&pool, a.clone()),
        );
        let held = [&first, &second].map(|share| share.acquire(1).now_or_never().unwrap());
        assert!(second.acquire(1).now_or_never().is_none());
        // More than there are: all of them.
        assert!(shares.share(&pool, b).acquire(9).now_or_never().is_some());
        assert!(
            shares
                .share(&"other".into(), a)
                .acquire(2)
                .now_or_never()
                .is_some()
        );
        drop(held);
        assert!(second.acquire(2).now_or_never().is_some());
        drop((first, second));
        assert!(shares.is_empty());
    }

    #[test]
    fn a_permit_counts_after_the_share_from_which_it_came_was_dropped() {
        let shares = NamespaceShares::new(1);
        let (pool, namespace) = ("default".into(), NamespaceGrant::try_from("a").unwrap());
        let permit = shares
            .share(&pool, namespace.clone())
            .acquire(1)
            .now_or_never()
            .unwrap();
        let share = shares.share(&pool, namespace);
        assert!(share.acquire(1).now_or_never().is_none());
        drop(permit);
        assert!(share.acquire(1).now_or_never().is_some());
    }
}
