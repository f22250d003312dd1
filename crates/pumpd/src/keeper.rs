//! Which buckets are ours: the roster of live instances, and a lease on each bucket of our share.
//!
//! ```text
//!  lease        |<------------------- 3 s ------------------->|
//!  renewals     |------ 1 s ------|------ 1 s ------|-- …
//!  a kill -9 just after a renewal: the others see the membership end 3 s later, look again at that
//!  very moment, and take the buckets as their locks run out.
//! ```
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
    held: BTreeSet<u16>,
    changes: mpsc::UnboundedSender<Change>,
}

impl Keeper {
    pub(crate) fn new(pool: Arc<Pool>, changes: mpsc::UnboundedSender<Change>) -> Self {
        Self {
            pool,
            held: BTreeSet::new(),
            changes,
        }
    }

    /// Keeps our share until told to stop, then hands everything back.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            let pause = self.look().await.unwrap_or_else(|error| {
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
        let lease_ms = u64::try_from(self.pool.config.lease.as_millis()).unwrap_or(u64::MAX);
        let roster = self
            .pool
            .store
            .roster_join(&self.pool.token, lease_ms)
            .await?;
        let wanted = share::share(
            &self.pool.token,
            &roster.instances,
            self.pool.store.buckets(),
        );
        let handed_over: Vec<u16> = self.held.difference(&wanted).copied().collect();
        self.release(&handed_over).await;
        let complete = self.take_and_keep(&wanted, lease_ms).await?;
        self.pool.measures.buckets_held(self.held.len());
        if !complete {
            return Ok(HANDOVER_PAUSE);
        }
        // Just after the end of a membership, so that its end is seen.
        let next_end = Duration::from_millis(roster.next_end_in_ms + 1);
        Ok(next_end.min(self.pool.config.lease / 3))
    }

    /// Answers whether we now lead all that we want.
    async fn take_and_keep(
        &mut self,
        wanted: &BTreeSet<u16>,
        lease_ms: u64,
    ) -> Result<bool, StoreError> {
        let calls = wanted.iter().map(|&bucket| {
            let pool = Arc::clone(&self.pool);
            let held = self.held.contains(&bucket);
            async move {
                let leased = if held {
                    pool.store.lease_renew(bucket, &pool.token, lease_ms).await
                } else {
                    pool.store
                        .lease_acquire(bucket, &pool.token, lease_ms)
                        .await
                };
                (bucket, leased)
            }
        });
        let results: Vec<_> = stream::iter(calls)
            .buffer_unordered(CALLS_AT_ONCE)
            .collect()
            .await;
        let mut failure = None;
        for (bucket, leased) in results {
            match leased {
                Ok(Leased::Ours) => self.gained(bucket),
                Ok(Leased::NotOurs) => self.lost(bucket),
                // Whether we still lead it is not known; the scripts know.
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(self.held.len() == wanted.len()),
        }
    }

    fn gained(&mut self, bucket: u16) {
        if self.held.insert(bucket) {
            let _ = self.changes.send(Change::Gained(bucket));
        }
    }

    fn lost(&mut self, bucket: u16) {
        if self.held.remove(&bucket) {
            let _ = self.changes.send(Change::Lost(bucket));
        }
    }

    async fn release(&mut self, buckets: &[u16]) {
        for &bucket in buckets {
            self.lost(bucket);
        }
        let calls = buckets.iter().map(|&bucket| {
            let pool = Arc::clone(&self.pool);
            async move { pool.store.lease_release(bucket, &pool.token).await }
        });
        let results: Vec<_> = stream::iter(calls)
            .buffer_unordered(CALLS_AT_ONCE)
            .collect()
            .await;
        for error in results.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "a lease was not handed back: it ends by itself");
        }
    }

    async fn hand_back(mut self) {
        let held: Vec<u16> = self.held.iter().copied().collect();
        self.release(&held).await;
        self.pool.measures.buckets_held(0);
        match self.pool.store.roster_leave(&self.pool.token).await {
            Ok(()) => tracing::info!(buckets = held.len(), "handed the buckets back"),
            Err(error) => tracing::warn!(%error, "the membership was not ended: it ends by itself"),
        }
    }
}
