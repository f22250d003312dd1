//! Holds this instance's share of the buckets of one server: its membership on the roster, and the locks.
//!
//! ```text
//!  membership   |<------------------- 3 s ------------------->|
//!  renewed      |------ 1 s ------|------ 1 s ------|-- …
//!  after a kill -9: the other instances check the roster when the membership expires, up to 3 s later, and take the
//!  locks of the instance that is not on it any more.
//! ```
//!
//! A lock has no time to live. Its holder keeps it until it releases it, or until it is not on the roster any more and
//! another instance takes it. So 256 buckets cost one call a second, not 256. An instance whose membership has expired
//! while it runs is refused by its next call on a bucket that another instance leads. A message reaches it earlier, and
//! also an instance whose lock was taken by an instance that did not know it yet.
//!
//! An instance that stops leaves the roster and releases its locks; the others get a message and take them. An instance
//! that joins is noticed by a message too: the others release its buckets, and it retries at short intervals until it
//! has its share.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidegate_store::{LeaseOutcome, ServerBuckets, StoreError};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::instance::Instance;
use crate::leases::BucketLeases;
use crate::roster::{self, Members};
use crate::share;

/// Interval of retries for a bucket of the share that another instance still holds, and the pause before a lock is
/// asked for again that a call or a message has called into question.
const HANDOVER_PAUSE: Duration = Duration::from_millis(50);
/// Pause before a retry after a failed call.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Maximum number of calls for locks in flight. After this many have failed, no further call is made.
const CALLS_AT_ONCE: usize = 32;

pub(crate) struct ServerLeaseKeeper {
    instance: Arc<Instance>,
    leases: Arc<BucketLeases>,
    server: watch::Receiver<ServerBuckets>,
    /// How often this instance had joined the roster at the last check.
    times_joined: u64,
}

impl ServerLeaseKeeper {
    pub(crate) const fn new(
        instance: Arc<Instance>,
        leases: Arc<BucketLeases>,
        server: watch::Receiver<ServerBuckets>,
    ) -> Self {
        Self {
            instance,
            leases,
            server,
            times_joined: 0,
        }
    }

    /// Holds the share until `stop`, then releases it.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let (instance, server) = (Arc::clone(&self.instance), self.server.clone());
        let (members, seen) = watch::channel(None);
        tokio::select! {
            () = stop.cancelled() => {}
            never = roster::keep_membership(&instance, &server, &members) => match never {},
            never = self.keep(seen) => match never {},
        }
        self.release_all().await;
    }

    async fn keep(&mut self, mut seen: watch::Receiver<Option<Members>>) -> Infallible {
        let mut look_again = self.instance.look_again.subscribe();
        loop {
            let members = seen.borrow_and_update().clone();
            let pause = match members {
                Some(members) => self.reconcile(&members).await,
                None => self.instance.config.lease,
            };
            tokio::select! {
                Ok(()) = seen.changed() => {}
                // Two pumps that do not know each other yet would take locks from each other without a pause.
                Ok(()) = look_again.changed() => sleep(HANDOVER_PAUSE).await,
                Ok(()) = self.server.changed() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Acquires and releases locks according to the roster. Returns the time until the next check.
    async fn reconcile(&mut self, members: &Members) -> Duration {
        let Instance { store, token, .. } = &*self.instance;
        let here = Arc::clone(&self.server.borrow_and_update().buckets);
        let share = share::share(token, &members.instances, store.buckets());
        let wanted: BTreeSet<u16> = here
            .iter()
            .copied()
            .filter(|it| share.contains(it))
            .collect();
        let doubted = self.instance.take_doubted(&here);
        // While the membership was expired, other instances may have taken any lock.
        let was_away = members.times_joined > self.times_joined;
        self.times_joined = members.times_joined;
        let is_kept = |it: u16| !was_away && !doubted.contains(&it) && self.leases.is_settled(it);
        let asked_for: Vec<u16> = wanted.iter().copied().filter(|it| !is_kept(*it)).collect();
        let mut surplus = self.leases.held_or_unsettled(&here);
        surplus.retain(|bucket| !wanted.contains(bucket));
        let (released, acquired) = tokio::join!(
            self.release(surplus),
            self.acquire(asked_for, &members.instances)
        );
        let looked = released.and(acquired);
        let address = Arc::clone(&self.server.borrow().address);
        self.instance.membership.leased(&address, &looked);
        match looked {
            Err(_) => RETRY_PAUSE,
            Ok(()) if self.leases.held_of(&wanted) < wanted.len() => HANDOVER_PAUSE,
            Ok(()) => self.instance.config.lease,
        }
    }

    /// Acquires locks. Each is recorded when its call returns. Failed calls are repeated by the next check.
    async fn acquire(&self, buckets: Vec<u16>, living: &[String]) -> Result<(), StoreError> {
        let Instance { store, token, .. } = &*self.instance;
        self.leases.acquiring(&buckets);
        let call = |bucket| store.lease_acquire(bucket, token, living);
        let answered = |bucket, leased| match leased {
            LeaseOutcome::Ours => self.leases.gained(bucket),
            LeaseOutcome::NotOurs => self.leases.lost(bucket),
        };
        self.calls(buckets, call, answered).await
    }

    /// Releases locks. Failed calls are repeated by the next check.
    async fn release(&self, buckets: Vec<u16>) -> Result<(), StoreError> {
        let Instance { store, token, .. } = &*self.instance;
        self.leases.releasing(&buckets);
        let call = |bucket| store.lease_release(bucket, token);
        self.calls(buckets, call, |bucket, ()| self.leases.lost(bucket))
            .await
    }

    /// Makes a call for each of these buckets. A call that takes longer than the lease fails.
    async fn calls<T, F>(
        &self,
        buckets: Vec<u16>,
        call: impl Fn(u16) -> F,
        answered: impl Fn(u16, T),
    ) -> Result<(), StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let limit = self.instance.config.lease;
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

    /// Leaves the roster and releases the locks. The other instances are notified. They can take locks that could not
    /// be released, since this instance is not on the roster any more.
    async fn release_all(&self) {
        let ServerBuckets {
            address,
            buckets,
            roster,
        } = self.server.borrow().clone();
        let ours = self.leases.held_or_unsettled(&buckets);
        let count = ours.len();
        let Instance { store, token, .. } = &*self.instance;
        let leave = store.roster_leave(roster, token);
        let (left, released) = tokio::join!(leave, self.release(ours));
        match left.and(released) {
            Ok(()) => tracing::info!(server = %address, buckets = count, "released the buckets"),
            Err(error) => tracing::warn!(
                server = %address,
                %error,
                "failed to release the buckets: other pumps take them when the membership expires"
            ),
        }
    }
}
