//! Our share of the buckets of one server: the roster of its pumps, and the locks of its buckets.
//!
//! ```text
//!  membership   |<------------------- 3 s ------------------->|
//!  prolonged    |------ 1 s ------|------ 1 s ------|-- …
//!  a kill -9 just after that: the others see the membership end 3 s later, look at that very moment,
//!  and take the locks of one who is not on the roster.
//! ```
//!
//! A lock has no time to live: it is its holder's until it hands it over, or is not on the roster any
//! more and another one takes it. So keeping 256 buckets costs one call a second, not 256. An
//! instance that was taken for dead and is not finds out with its next call about a bucket, which is refused.
//!
//! An instance that stops leaves the roster and hands its locks back; the others get a message and take them.
//! One that joins is noticed at once too: those who lead its buckets hand them over, and it keeps asking at
//! short intervals until it has its share.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidegate_store::{Leased, ServerBuckets, StoreError};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::leases::Leases;
use crate::pump::Pool;
use crate::roster::{self, Members};
use crate::share;

/// How soon to ask again for a bucket of our share that another instance still holds.
const HANDOVER_PAUSE: Duration = Duration::from_millis(50);
/// Before locks are asked for again after a call failed.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Calls for locks in flight at the same time. After as many have failed, no further one begins.
const CALLS_AT_ONCE: usize = 32;

pub(crate) struct ServerKeeper {
    pool: Arc<Pool>,
    leases: Arc<Leases>,
    server: watch::Receiver<ServerBuckets>,
    /// Which of the times that we joined the roster is taken into account.
    times_joined: u64,
}

impl ServerKeeper {
    pub(crate) const fn new(
        pool: Arc<Pool>,
        leases: Arc<Leases>,
        server: watch::Receiver<ServerBuckets>,
    ) -> Self {
        Self {
            pool,
            leases,
            server,
            times_joined: 0,
        }
    }

    /// Keeps our share until `stop`, then hands it back.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let (pool, server) = (Arc::clone(&self.pool), self.server.clone());
        let (members, seen) = watch::channel(None);
        tokio::select! {
            () = stop.cancelled() => {}
            never = roster::stay(&pool, &server, &members) => match never {},
            never = self.keep(seen) => match never {},
        }
        self.hand_back().await;
    }

    async fn keep(&mut self, mut seen: watch::Receiver<Option<Members>>) -> Infallible {
        let mut look_again = self.pool.look_again.subscribe();
        loop {
            let members = seen.borrow_and_update().clone();
            let pause = match members {
                Some(members) => self.look(&members).await,
                None => self.pool.config.lease,
            };
            tokio::select! {
                Ok(()) = seen.changed() => {}
                Ok(()) = look_again.changed() => {}
                Ok(()) = self.server.changed() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Takes, keeps and hands over locks as the roster asks to. Answers when to look again.
    async fn look(&mut self, members: &Members) -> Duration {
        let Pool { store, token, .. } = &*self.pool;
        let here = Arc::clone(&self.server.borrow_and_update().buckets);
        let share = share::share(token, &members.instances, store.buckets());
        let wanted: BTreeSet<u16> = here
            .iter()
            .copied()
            .filter(|it| share.contains(it))
            .collect();
        let doubted = self.pool.take_doubted(&here);
        // An instance that was taken for dead may have lost any lock.
        let was_away = members.times_joined > self.times_joined;
        self.times_joined = members.times_joined;
        let is_kept = |it: u16| !was_away && !doubted.contains(&it) && self.leases.is_settled(it);
        let asked_for: Vec<u16> = wanted.iter().copied().filter(|it| !is_kept(*it)).collect();
        let mut surplus = self.leases.ours(&here);
        surplus.retain(|bucket| !wanted.contains(bucket));
        let (released, acquired) = tokio::join!(
            self.release(surplus),
            self.acquire(asked_for, &members.instances)
        );
        let looked = released.and(acquired);
        self.pool.membership.leased(&self.address(), &looked);
        match looked {
            Err(_) => RETRY_PAUSE,
            Ok(()) if self.leases.held_of(&wanted) < wanted.len() => HANDOVER_PAUSE,
            Ok(()) => self.pool.config.lease,
        }
    }

    /// Takes locks, each known as ours as soon as its call is answered. The next look makes the calls that failed.
    async fn acquire(&self, buckets: Vec<u16>, living: &[String]) -> Result<(), StoreError> {
        let Pool { store, token, .. } = &*self.pool;
        self.leases.acquiring(&buckets);
        let call = |bucket| store.lease_acquire(bucket, token, living);
        let answered = |bucket, leased| match leased {
            Leased::Ours => self.leases.gained(bucket),
            Leased::NotOurs => self.leases.lost(bucket),
        };
        self.calls(buckets, call, answered).await
    }

    /// Hands locks back. The next look makes the calls that failed.
    async fn release(&self, buckets: Vec<u16>) -> Result<(), StoreError> {
        let Pool { store, token, .. } = &*self.pool;
        self.leases.releasing(&buckets);
        let call = |bucket| store.lease_release(bucket, token);
        self.calls(buckets, call, |bucket, ()| self.leases.lost(bucket))
            .await
    }

    /// Makes a call about each of these buckets. One that takes longer than the lease has failed.
    async fn calls<T, F>(
        &self,
        buckets: Vec<u16>,
        call: impl Fn(u16) -> F,
        answered: impl Fn(u16, T),
    ) -> Result<(), StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let limit = self.pool.config.lease;
        let mut left = buckets.into_iter();
        let mut in_flight = FuturesUnordered::new();
        let (mut failed, mut result) = (0, Ok(()));
        loop {
            while in_flight.len() < CALLS_AT_ONCE && failed < CALLS_AT_ONCE {
                let Some(bucket) = left.next() else { break };
                let call = timeout(limit, call(bucket));
                in_flight.push(async move { (bucket, call.await) });
            }
            let Some((bucket, answer)) = in_flight.next().await else {
                return result;
            };
            match answer.unwrap_or_else(|_| Err(StoreError::timed_out(limit))) {
                Ok(answer) => answered(bucket, answer),
                Err(error) => {
                    failed += 1;
                    result = Err(error);
                }
            }
        }
    }

    /// The others look as soon as this instance has left. What it could not hand back is free for them then, too.
    async fn hand_back(&self) {
        let ServerBuckets {
            address,
            buckets,
            roster,
        } = self.server.borrow().clone();
        let ours = self.leases.ours(&buckets);
        let count = ours.len();
        let leave = self.pool.store.roster_leave(roster, &self.pool.token);
        let (left, released) = tokio::join!(leave, self.release(ours));
        match left.and(released) {
            Ok(()) => tracing::info!(server = %address, buckets = count, "handed the buckets back"),
            Err(error) => tracing::warn!(
                server = %address,
                %error,
                "failed to hand the buckets back: they are free when the membership expires"
            ),
        }
    }

    fn address(&self) -> Arc<str> {
        Arc::clone(&self.server.borrow().address)
    }
}
