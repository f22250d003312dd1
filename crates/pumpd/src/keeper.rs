//! Which buckets are ours: the roster of live instances, and the lock of each bucket of our share.
//!
//! ```text
//!  membership   |<------------------- 3 s ------------------->|
//!  prolonged    |------ 1 s ------|------ 1 s ------|-- …
//!  a kill -9 just after that: the others see the membership end 3 s later, look at that very moment,
//!  and take the locks of one who is not on the roster.
//! ```
//!
//! The membership is renewed by a task of its own (`roster.rs`). Calls about locks go to all servers at once, and after one
//! failed the other locks of its server are left for the next look.
//!
//! A lock has no time to live: it is its holder's until it hands it over, or is not on the roster any
//! more and another one takes it. So keeping 256 buckets costs one call a second, not 256. Whoever was
//! taken for dead and is not finds out with its next call about a bucket, which is refused.
//!
//! An instance that stops hands its locks back first and leaves the roster then, so the others find
//! them free when they are told. One that joins is noticed at once too: those who lead its buckets
//! hand them over, and it keeps asking at short intervals until it has its share.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tidegate_store::{Leased, StoreError};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::pump::Pool;
use crate::reach::Reach;
use crate::roster::{self, Members};
use crate::share;

/// How soon to ask again for a bucket of our share that another instance still holds.
const HANDOVER_PAUSE: Duration = Duration::from_millis(50);
/// Before locks are asked for again on a server that did not answer.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Calls for leases under way at the same time on one server.
const CALLS_AT_ONCE: usize = 32;
/// A call for a lock is given up after this part of the lease.
const CALL_PART: u32 = 5;

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
    /// Which of the times that we joined the roster is taken into account.
    times_joined: u64,
    changes: mpsc::UnboundedSender<Change>,
}

/// What became of calls for locks.
#[derive(Debug)]
struct Calls<T> {
    answered: Vec<(u16, T)>,
    /// Those that failed, and those that were not made because one before failed on the same server.
    failed: Vec<u16>,
    error: Option<StoreError>,
}

impl<T> Calls<T> {
    const fn none() -> Self {
        Self {
            answered: Vec::new(),
            failed: Vec::new(),
            error: None,
        }
    }
}

impl Keeper {
    pub(crate) fn new(pool: Arc<Pool>, changes: mpsc::UnboundedSender<Change>) -> Self {
        Self {
            pool,
            held: BTreeSet::new(),
            unsettled: BTreeSet::new(),
            times_joined: 0,
            changes,
        }
    }

    /// Keeps our share until told to stop, then hands everything back.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let pool = Arc::clone(&self.pool);
        let (members, seen) = watch::channel(None);
        tokio::select! {
            () = stop.cancelled() => {}
            never = roster::stay(&pool, &members) => match never {},
            never = self.keep(seen) => match never {},
        }
        self.hand_back().await;
    }

    async fn keep(&mut self, mut seen: watch::Receiver<Option<Members>>) -> Infallible {
        let pool = Arc::clone(&self.pool);
        loop {
            let members = seen.borrow_and_update().clone();
            let pause = match members {
                Some(members) => self.look(&members).await,
                None => self.pool.config.lease,
            };
            tokio::select! {
                Ok(()) = seen.changed() => {}
                () = pool.look_again.notified() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Takes, keeps and hands over locks as the roster asks to. Answers when to look again.
    async fn look(&mut self, members: &Members) -> Duration {
        let Pool { store, token, .. } = &*self.pool;
        let reach = Reach::of(members, store);
        let can_reach = |instance: &str, bucket| reach.can_reach(instance, bucket);
        let wanted = share::share(token, &members.instances, store.buckets(), can_reach);
        let doubted = self.pool.take_doubted();
        // Whoever was taken for dead may have lost anything.
        let was_away = members.times_joined > self.times_joined;
        self.times_joined = members.times_joined;
        let is_kept = |bucket: &u16| {
            let is_in_doubt = doubted.contains(bucket) || self.unsettled.contains(bucket);
            self.held.contains(bucket) && !is_in_doubt && !was_away
        };
        let asked_for = wanted.iter().copied().filter(|bucket| !is_kept(bucket));
        let asked_for: Vec<u16> = asked_for.collect();
        let known = self.held.union(&self.unsettled).copied();
        let surplus: Vec<u16> = known.filter(|bucket| !wanted.contains(bucket)).collect();
        let is_released = self.release(&surplus).await;
        let is_acquired = self.acquire(asked_for, &reach).await;
        self.pool.measures.buckets_held(self.held.len());
        match is_released && is_acquired {
            false => RETRY_PAUSE,
            true if self.held.len() < wanted.len() => HANDOVER_PAUSE,
            true => self.pool.config.lease,
        }
    }

    /// Takes locks. Answers whether all calls were answered; the next look makes the rest.
    async fn acquire(&mut self, buckets: Vec<u16>, reach: &Reach<'_>) -> bool {
        // Whether we lead them is not known until a call says so. The scripts know.
        self.unsettled.extend(&buckets);
        let calls = self.calls(&buckets, |pool, bucket| {
            let holders = reach.holders(bucket);
            async move {
                pool.store
                    .lease_acquire(bucket, &pool.token, &holders)
                    .await
            }
        });
        let calls = calls.await;
        for (bucket, leased) in &calls.answered {
            match leased {
                Leased::Ours => self.gained(*bucket),
                Leased::NotOurs => self.lost(*bucket),
            }
        }
        if let Some(error) = &calls.error {
            let buckets = calls.failed.len();
            tracing::warn!(%error, buckets, "cannot keep the leases");
        }
        calls.error.is_none()
    }

    /// Makes a call about each of these buckets. Those of one server do not wait for another one, and after one failed the
    /// rest of its server is left out.
    async fn calls<T, F>(
        &self,
        buckets: &[u16],
        call: impl Fn(Arc<Pool>, u16) -> F + Clone,
    ) -> Calls<T>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let limit = self.pool.config.lease / CALL_PART;
        let mut by_server: BTreeMap<_, Vec<u16>> = BTreeMap::new();
        for &bucket in buckets {
            let server = self.pool.store.server_of(bucket);
            by_server.entry(server).or_default().push(bucket);
        }
        let servers = by_server.into_values().map(|buckets| {
            let (pool, call) = (Arc::clone(&self.pool), call.clone());
            calls_on_one_server(buckets, limit, move |bucket| {
                call(Arc::clone(&pool), bucket)
            })
        });
        let mut all = Calls::none();
        for calls in join_all(servers).await {
            all.answered.extend(calls.answered);
            all.failed.extend(calls.failed);
            all.error = all.error.or(calls.error);
        }
        all
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

    /// Hands buckets back. What could not be handed back is tried again with the next look. Answers whether nothing is left.
    async fn release(&mut self, buckets: &[u16]) -> bool {
        for &bucket in buckets {
            self.lost(bucket);
        }
        let calls = self.calls(buckets, |pool, bucket| async move {
            pool.store.lease_release(bucket, &pool.token).await
        });
        let calls = calls.await;
        self.unsettled.extend(&calls.failed);
        if let Some(error) = &calls.error {
            let buckets = calls.failed.len();
            tracing::warn!(%error, buckets, "leases were not handed back");
        }
        calls.error.is_none()
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

async fn calls_on_one_server<T, F>(
    buckets: Vec<u16>,
    limit: Duration,
    call: impl Fn(u16) -> F,
) -> Calls<T>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut calls = Calls::none();
    for chunk in buckets.chunks(CALLS_AT_ONCE) {
        if calls.error.is_some() {
            calls.failed.extend(chunk);
            continue;
        }
        let answers = chunk.iter().map(|&bucket| timeout(limit, call(bucket)));
        for (&bucket, answer) in chunk.iter().zip(join_all(answers).await) {
            match answer.unwrap_or_else(|_| Err(StoreError::timed_out(limit))) {
                Ok(answer) => calls.answered.push((bucket, answer)),
                Err(error) => {
                    calls.failed.push(bucket);
                    calls.error = Some(error);
                }
            }
        }
    }
    calls
}
