//! Which buckets are ours: the roster of live instances, and the lock of each bucket of our share.
//!
//! ```text
//!  membership   |<------------------- 3 s ------------------->|
//!  prolonged    |------ 1 s ------|------ 1 s ------|-- …
//!  a kill -9 just after that: the others see the membership end 3 s later, look at that very moment,
//!  and take the locks of one who is not on the roster.
//! ```
//!
//! A lock has no time to live: it is its holder's until it hands it over, or is not on the roster any
//! more and another one takes it. So keeping 256 buckets costs one call a second, not 256. Whoever was
//! taken for dead and is not finds out with its next call about a bucket, which is refused.
//!
//! An instance that stops hands its locks back first and leaves the roster then, so the others find
//! them free when they are told. One that joins is noticed at once too: those who lead its buckets
//! hand them over, and it keeps asking at short intervals until it has its share.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tidegate_store::{Leased, StoreError};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::pump::Pool;
use crate::share;

/// How soon to ask again for a bucket of our share that another instance still holds.
const HANDOVER_PAUSE: Duration = Duration::from_millis(50);
/// Calls for leases under way at the same time.
const CALLS_AT_ONCE: usize = 32;

/// A change in the buckets that this instance leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Gained(u16),
    Lost(u16),
}

pub(crate) struct Keeper {
    pool: Arc<Pool>,
    /// What we lead, as far as we know.
    held: BTreeSet<u16>,
    /// Locks that may be ours or not: a call about them failed, or was not made yet.
    unsettled: BTreeSet<u16>,
    changes: mpsc::UnboundedSender<Change>,
}

impl Keeper {
    pub(crate) fn new(pool: Arc<Pool>, changes: mpsc::UnboundedSender<Change>) -> Self {
        Self {
            pool,
            held: BTreeSet::new(),
            unsettled: BTreeSet::new(),
            changes,
        }
    }

    /// Keeps our share until told to stop, then hands everything back.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            let looked = self.look().await;
            self.pool.membership.looked(&looked);
            let pause = looked.unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot keep the leases");
                HANDOVER_PAUSE * 4
            });
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.pool.look_again.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        self.hand_back().await;
    }

    /// Looks who is there and takes, keeps and hands over accordingly. Answers when to look again.
    async fn look(&mut self) -> Result<Duration, StoreError> {
        let Pool {
            store,
            token,
            config,
            ..
        } = &*self.pool;
        let lease_ms = u64::try_from(config.lease.as_millis()).unwrap_or(u64::MAX);
        let pause_max = config.lease / 3;
        // The membership must not end while many locks are acquired: it is prolonged in between.
        let until = Instant::now() + pause_max;
        let roster = store.roster_join(token, lease_ms).await?;
        let wanted = share::share(token, &roster.instances, store.buckets());
        let doubted = self.pool.take_doubted();
        // Whoever was taken for dead may have lost anything.
        let is_kept = |bucket: &u16| {
            let is_in_doubt = doubted.contains(bucket) || self.unsettled.contains(bucket);
            self.held.contains(bucket) && !is_in_doubt && !roster.is_new
        };
        let asked_for = wanted.iter().copied().filter(|bucket| !is_kept(bucket));
        let asked_for: Vec<u16> = asked_for.collect();
        let known = self.held.union(&self.unsettled).copied();
        let surplus: Vec<u16> = known.filter(|bucket| !wanted.contains(bucket)).collect();
        self.release(&surplus).await;
        self.acquire(asked_for, roster.instances, until).await?;
        self.pool.measures.buckets_held(self.held.len());
        if self.held.len() < wanted.len() || !self.unsettled.is_empty() {
            return Ok(HANDOVER_PAUSE);
        }
        // Just after the end of a membership, so that its end is seen.
        let next_end = Duration::from_millis(roster.next_end_in_ms + 1);
        Ok(next_end.min(pause_max))
    }

    /// Takes locks. No call begins after `until`: the next look makes the rest.
    async fn acquire(
        &mut self,
        buckets: Vec<u16>,
        living: Vec<String>,
        until: Instant,
    ) -> Result<(), StoreError> {
        let living: Arc<[String]> = living.into();
        // Whether we lead them is not known until a call says so. The scripts know.
        self.unsettled.extend(&buckets);
        let in_time = buckets.into_iter().take_while(|_| Instant::now() < until);
        let calls = in_time.map(|bucket| {
            let (pool, living) = (Arc::clone(&self.pool), Arc::clone(&living));
            async move {
                let leased = pool.store.lease_acquire(bucket, &pool.token, &living);
                (bucket, leased.await)
            }
        });
        let mut failure = None;
        for (bucket, leased) in at_once(calls).await {
            match leased {
                Ok(Leased::Ours) => self.gained(bucket),
                Ok(Leased::NotOurs) => self.lost(bucket),
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn gained(&mut self, bucket: u16) {
        self.unsettled.remove(&bucket);
        if self.held.insert(bucket) {
            let _ = self.changes.send(Change::Gained(bucket));
        }
    }

    fn lost(&mut self, bucket: u16) {
        self.unsettled.remove(&bucket);
        if self.held.remove(&bucket) {
            let _ = self.changes.send(Change::Lost(bucket));
        }
    }

    /// Hands buckets back. What could not be handed back is tried again with the next look.
    async fn release(&mut self, buckets: &[u16]) {
        for &bucket in buckets {
            self.lost(bucket);
        }
        let calls = buckets.iter().map(|&bucket| {
            let pool = Arc::clone(&self.pool);
            async move { (bucket, pool.store.lease_release(bucket, &pool.token).await) }
        });
        let mut failure = None;
        for (bucket, released) in at_once(calls).await {
            if let Err(error) = released {
                self.unsettled.insert(bucket);
                failure = Some(error);
            }
        }
        if let Some(error) = failure {
            tracing::warn!(%error, "leases were not handed back");
        }
    }

    async fn hand_back(mut self) {
        let held: Vec<u16> = self.held.union(&self.unsettled).copied().collect();
        self.release(&held).await;
        self.pool.measures.buckets_held(0);
        match self.pool.store.roster_leave(&self.pool.token).await {
            Ok(()) => tracing::info!(buckets = held.len(), "handed the buckets back"),
            Err(error) => tracing::warn!(%error, "the membership was not ended: it ends by itself"),
        }
    }
}

async fn at_once<T>(calls: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let calls = stream::iter(calls).buffer_unordered(CALLS_AT_ONCE);
    calls.collect().await
}
