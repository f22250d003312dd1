//! Consumers that wait for jobs, and how jobs come to them.
//!
//! ```text
//!  consumer ──takes──► seat ──enters──► line of queue A ──► serve loop of A ──► store.reserve
//!    ▲                  │                (seats in order)     a lane at a time  (claims in order)
//!    │                  └──enters──────► line of queue B ──► serve loop of B        │
//!    │                                         ▲                                    │
//!    │                                         │ ring: doorbell, poll, arrival      │
//!    └── delivery ◄── first jobs win ◄─────────┴──────── jobs, in order ◄───────────┘
//!          │
//!          └── not written to the client? ──► store.release, without costing a try
//! ```
//!
//! **A seat first, then a look.** A consumer enters the line of a queue before anybody looks into the
//! queue for it. A job that is published in between rings a line that the consumer is in already, so
//! there is no moment in which a wake-up can be missed.
//!
//! **One serve loop a source.** A round takes the claims of the seats in a line, in order of arrival, and
//! makes one call for all of them; who arrives during the call is served by the next one. So a thousand
//! consumers of one queue cost a few calls, not a thousand, and first come is first served. The loop
//! goes on as long as somebody is in line who has not had a round that began after his arrival, or the
//! line was rung during the call, or every claim was satisfied, which means that there may be more.
//!
//! **Lanes.** The rounds of a line look into the lanes of its queue in turn, one call at a time: a line for
//! each lane would make calls of few claims each. A seat has had its round when all lanes have been tried for
//! it. A doorbell says in which lane it rang. A call that takes long, since a server is in trouble, is left to
//! itself, and the rounds go on without its lane.
//!
//! **Several sources.** A source is a queue in one Redis deployment. A seat enters the lines of its
//! sources one after the other, each time waiting for a round to find nothing there: that is the strict
//! order of queues. Then it waits in all lines at once. If two of them deliver at the same moment the
//! second delivery goes to another seat in that line, or back. A line is not waited for where the last call failed, or servers have been slow for
//! long: the seat stays in it, and goes on to the next ([`slow`]).
//!
//! **Nothing is delivered into the void.** Every job on its way is in the hands of something that gives
//! it back when dropped: the seat, then the [`Delivery`], then the body of the answer, until hyper has
//! taken the bytes. A client that hangs up drops the future of its request and with it all of these.
//!
//! **A failed call ends no wait.** Seats stay in line while Redis is unavailable. [`retry`] repeats the calls
//! that failed, a few lines of a pool at a time, and all of them as soon as one succeeds.
//!
//! **Messages are hints.** [`wake`] rings lines when Redis says so, and each line once in a while in
//! case Redis's message was lost.

mod delivery;
mod line;
mod place;
mod retry;
mod room;
mod round;
mod seat;
mod slow;
mod source;
mod wake;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use metrics::Gauge;
use tidegate_core::JobId;
use tidegate_store::Claim;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::metrics::WAITING;
use crate::pool::Deployment;
pub(crate) use delivery::Delivery;
use line::Line;
use place::Place;
use retry::RetrySignal;
pub(crate) use room::{NoRoom, Room};
use seat::News;
pub(crate) use source::Source;

/// Looks at slow servers do not keep a consumer from the sources behind them for longer, nor jobs that it has taken
/// from its client.
const LOOK_IN_ORDER_MAX: Duration = Duration::from_millis(250);

/// Nothing is known of the queues: calls for their lines failed. The reasons have been logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoundFailed;

/// The waiting consumers of all pools. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Waiters(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pools: BTreeMap<Arc<str>, Pool>,
    poll_interval: Duration,
    lines: Mutex<Lines>,
    /// Cancelled when the lines are closed, for those who are in no line.
    closed: CancellationToken,
    /// Serve loops and releases.
    tasks: TaskTracker,
    /// Where tasks run that are started by a drop, which may happen anywhere.
    runtime: Handle,
}

/// A Redis deployment and how many wait for its jobs.
#[derive(Debug)]
struct Pool {
    deployment: Deployment,
    waiting: Gauge,
    retry: RetrySignal,
}

#[derive(Debug, Default)]
struct Lines {
    by_source: HashMap<Source, Line>,
    next_ticket: u64,
    closed: bool,
}

impl Waiters {
    /// Lines for the queues of these pools. To be called on a runtime.
    pub(crate) fn new(
        deployments: &BTreeMap<Arc<str>, Deployment>,
        poll_interval: Duration,
    ) -> Self {
        let pool = |(name, deployment): (&Arc<str>, &Deployment)| {
            let pool = Pool {
                deployment: deployment.clone(),
                waiting: metrics::gauge!(WAITING, "pool" => name.to_string()),
                retry: RetrySignal::default(),
            };
            (Arc::clone(name), pool)
        };
        Self(Arc::new(Inner {
            pools: deployments.iter().map(pool).collect(),
            poll_interval,
            lines: Mutex::default(),
            closed: CancellationToken::new(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
        }))
    }

    /// Takes jobs from the first source that has some, and waits for some if none has: for `patience`,
    /// never less, unless the lines are closed. At least one look into each source is taken after the
    /// call began; a look that fails ends no wait, and is repeated. One that takes longer than `patience` is not
    /// waited for where looks into other lanes or sources were answered. A claim that the first source does not
    /// fill goes on to those behind it, without waiting.
    ///
    /// `parked` is called when the sources were looked into once, in vain, and the wait begins.
    ///
    /// Dropping the future gives the place up at once, and gives jobs back that were on their way.
    ///
    /// # Errors
    /// No job was found, and: without patience a look into a source failed; with patience the last look
    /// into each lane of each source failed.
    pub(crate) async fn wait(
        &self,
        sources: &[Source],
        claim: Claim,
        patience: Duration,
        parked: &(dyn Fn() + Sync),
    ) -> Result<Option<Delivery>, RoundFailed> {
        let first = self.wait_for_first(sources, claim, patience, parked);
        let Some(mut delivery) = first.await? else {
            return Ok(None);
        };
        if delivery.len() >= usize::from(claim.count) {
            return Ok(Some(delivery));
        }
        let first = delivery.source().clone();
        let until = Instant::now() + LOOK_IN_ORDER_MAX;
        let behind = sources.iter().skip_while(|source| **source != first);
        for source in behind {
            let lanes = self.0.lanes_of(source);
            let looked_into = u16::from(*source == first);
            for _ in looked_into..lanes {
                let count = usize::from(claim.count).saturating_sub(delivery.len());
                let Ok(count @ 1..) = u16::try_from(count) else {
                    return Ok(Some(delivery));
                };
                let rest = Claim { count, ..claim };
                let source = std::slice::from_ref(source);
                let more = self.wait_for_first(source, rest, Duration::ZERO, parked);
                match timeout_at(until, more).await {
                    Ok(Ok(Some(more))) => delivery.append(more),
                    // What was taken is not given up because a later one could not be looked into.
                    Ok(Ok(None) | Err(RoundFailed)) => break,
                    // Its leases have begun.
                    Err(_) => return Ok(Some(delivery)),
                }
            }
        }
        Ok(Some(delivery))
    }

    async fn wait_for_first(
        &self,
        sources: &[Source],
        claim: Claim,
        patience: Duration,
        parked: &(dyn Fn() + Sync),
    ) -> Result<Option<Delivery>, RoundFailed> {
        let deadline = Instant::now() + patience;
        let mut place = Place::new(&self.0, claim, sources.first());
        let looked = place.look_in_order(sources, (!patience.is_zero()).then_some(deadline));
        match looked.await {
            News::NothingYet => {}
            news => return place.leave_with(news),
        }
        if patience.is_zero() {
            // Sources that were slow are waited for only if nothing is known of any.
            let looked = match place.is_informed {
                true => place.seat.news(&[]).await,
                false => place.first_rounds().await,
            };
            let is_unknown = place.is_in_line() || place.seat.has_failed_round();
            return match looked {
                News::NothingYet if is_unknown => Err(RoundFailed),
                news => place.leave_with(news),
            };
        }
        parked();
        let ended = async {
            match sources {
                [] => self.0.closed.cancelled().await,
                _ => place.seat.outcome().await,
            }
        };
        // Both ends of the wait lead to the same look at the seat.
        let _ = timeout_at(deadline, ended).await;
        let news = match place.is_answered() {
            true => place.seat.news(&[]).await,
            false => place.first_rounds().await,
        };
        match news {
            News::NothingYet if !place.is_answered() => Err(RoundFailed),
            news => place.leave_with(news),
        }
    }

    /// Answers everybody who waits, and everybody who comes from now on, that there is nothing.
    pub(crate) fn close(&self) {
        let mut lines = self.0.lock();
        lines.closed = true;
        for line in lines.by_source.values() {
            line.close();
        }
        drop(lines);
        self.0.closed.cancel();
    }

    /// How many consumers are in the line of each source, where there are any.
    pub(crate) fn by_source(&self) -> Vec<(Source, usize)> {
        let lines = self.0.lock();
        let lines = lines.by_source.iter();
        lines
            .map(|(source, line)| (source.clone(), line.len()))
            .filter(|(_, consumers)| *consumers > 0)
            .collect()
    }

    /// Waits until jobs that are on their way back have arrived. To be called after [`Self::close`],
    /// when all requests have ended.
    pub(crate) async fn settled(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Wakes the lines when there may be jobs for them, until told to stop.
    pub(crate) async fn wake(self, stop: CancellationToken) {
        wake::wake(&self.0, stop).await;
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        // The state is valid after each statement: a panic elsewhere does not spoil it.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many lanes there are to look into.
    fn lanes_of(&self, source: &Source) -> u16 {
        let pool = self.pools.get(&source.pool);
        pool.map_or(1, |pool| pool.deployment.lanes.used(&source.queue))
    }

    /// The servers that are being asked for jobs of a source.
    fn busy_servers(&self, source: &Source) -> Vec<Arc<str>> {
        let busy = self.lock().by_source.get(source).map(Line::busy_lanes);
        self.servers(source, busy.unwrap_or_default()).collect()
    }

    /// Whether one of the lanes of a source is on one of these servers.
    fn is_on(&self, source: &Source, servers: &[Arc<str>]) -> bool {
        let lanes = 0..self.lanes_of(source);
        !servers.is_empty()
            && self
                .servers(source, lanes)
                .any(|own| servers.contains(&own))
    }

    fn servers(
        &self,
        source: &Source,
        lanes: impl IntoIterator<Item = u16>,
    ) -> impl Iterator<Item = Arc<str>> {
        let pool = self.pools.get(&source.pool);
        let of_lane = move |lane| pool?.deployment.lanes.server_of(&source.queue, lane);
        lanes.into_iter().filter_map(of_lane)
    }

    /// Has the line of a source served, if there is one: one of its lanes, or all.
    fn ring(self: &Arc<Self>, source: &Source, lane: Option<u16>) {
        let start = match self.lock().by_source.get_mut(source) {
            Some(line) => line.ring(lane),
            None => false,
        };
        if start {
            self.spawn_serving(source.clone());
        }
    }

    /// Gives jobs back that no consumer got, so that the oldest is the queue's next again. Jobs of a round are given back
    /// before the next round of their `lane`, which would take those behind them.
    fn give_back(self: &Arc<Self>, source: Source, lane: Option<u16>, jobs: Vec<(JobId, u32)>) {
        let Some(pool) = self.pools.get(&source.pool).filter(|_| !jobs.is_empty()) else {
            return;
        };
        let Deployment { store, figures, .. } = pool.deployment.clone();
        let inner = Arc::clone(self);
        let giving_back = async move {
            // They share a connection, so Redis executes them in this order, and all of them take one round trip.
            let newest_first = jobs.iter().rev();
            let releases =
                newest_first.map(|(id, attempt)| store.release(&source.queue, *id, *attempt));
            for released in join_all(releases).await {
                match released {
                    Ok(_) => figures.released(),
                    // It comes back by itself when its lease is over.
                    Err(error) => crate::metrics::storage_failed(&error),
                }
            }
            if let (Some(lane), Some(line)) = (lane, inner.lock().by_source.get_mut(&source)) {
                line.free(lane);
            }
            inner.ring(&source, None);
        };
        self.tasks.spawn_on(giving_back, &self.runtime);
    }
}
