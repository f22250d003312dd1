//! The state that consumers, serve loops and wake-ups share: the wait queues of all pools.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use foldhash::HashMap;
use futures_util::future::join_all;
use parking_lot::Mutex;
use prometheus::{IntGauge, IntGaugeVec};
use tidegate_core::v1::consume::Outcome;
use tidegate_daemon::metrics::gauges;
use tidegate_store::{LeasedJob, POLL_QUEUES_MAX};
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::check_share::IN_FLIGHT_MAX;
use super::retry_signal::RetrySignal;
use super::source::Source;
use super::wait_queue::WaitQueue;
use crate::access::NamespaceShares;
use crate::metrics::storage_failure::record_store_error;
use crate::pool::Pool;

/// How long jobs that no consumer took are released again after a failure: as long as an outage of a failover may last.
const RELEASE_LIMIT: Duration = Duration::from_secs(30);
/// The pause between two attempts of that. A repetition releases no later delivery of a job.
const RELEASE_PAUSE: Duration = Duration::from_millis(200);
/// The pause between two attempts to pass a doorbell on.
const PASS_ON_PAUSE: Duration = Duration::from_millis(200);

static WAITING: LazyLock<IntGaugeVec> = LazyLock::new(|| {
    gauges(
        "tidegate_waiting_seats",
        "Number of consumers in this process that wait for a job, each counted once.",
        &["pool"],
    )
});

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) pools: BTreeMap<Arc<str>, PoolState>,
    pub(super) poll_interval: Duration,
    /// Valid after each statement, so it can be used after a panic under the lock.
    pub(super) wait_queues: Mutex<WaitQueues>,
    pub(super) check_shares: NamespaceShares,
    /// Cancelled when the wait queues are closed, for consumers without any source.
    pub(super) closed: CancellationToken,
    /// The tasks of serve loops and releases.
    pub(super) tasks: TaskTracker,
    /// For tasks that are started in `drop`, which may run outside of the runtime.
    pub(super) runtime: Handle,
}

/// A pool, the number of its waiting consumers, and its retries.
#[derive(Debug)]
pub(super) struct PoolState {
    pub(super) pool: Arc<Pool>,
    pub(super) waiting: IntGauge,
    pub(super) retry: RetrySignal,
}

#[derive(Debug, Default)]
pub(super) struct WaitQueues {
    pub(super) by_source: HashMap<Source, WaitQueue>,
    pub(super) next_ticket: u64,
    pub(super) closed: bool,
}

impl Shared {
    /// Creates the state, without any wait queue yet. Must be called inside a runtime.
    pub(super) fn new(pools: &BTreeMap<Arc<str>, Arc<Pool>>, poll_interval: Duration) -> Self {
        let state = |(name, pool): (&Arc<str>, &Arc<Pool>)| {
            let state = PoolState {
                pool: Arc::clone(pool),
                waiting: WAITING.with_label_values(&[&**name]),
                retry: RetrySignal::default(),
            };
            (Arc::clone(name), state)
        };
        Self {
            pools: pools.iter().map(state).collect(),
            poll_interval,
            wait_queues: Mutex::default(),
            check_shares: NamespaceShares::new(IN_FLIGHT_MAX),
            closed: CancellationToken::new(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
        }
    }

    /// The number of lanes of a source to check.
    pub(super) fn lanes_of(&self, source: &Source) -> u16 {
        let state = self.pools.get(&source.pool);
        state.map_or(1, |state| state.pool.lanes.used(&source.queue))
    }

    /// The servers with a call in flight for a source.
    pub(super) fn busy_servers(&self, source: &Source) -> Vec<Arc<str>> {
        let busy = self
            .wait_queues
            .lock()
            .by_source
            .get(source)
            .map(WaitQueue::busy_lanes);
        self.servers(source, busy.unwrap_or_default()).collect()
    }

    /// Whether a lane of a source is on one of these servers.
    pub(super) fn is_on(&self, source: &Source, servers: &[Arc<str>]) -> bool {
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
        let state = self.pools.get(&source.pool);
        let of_lane = move |lane| state?.pool.lanes.server_of(&source.queue, lane);
        lanes.into_iter().filter_map(of_lane)
    }

    /// Requests a check of one lane of a source, or of all its lanes, if it has a wait queue.
    pub(super) fn ring(self: &Arc<Self>, source: &Source, lane: Option<u16>) {
        let start = match self.wait_queues.lock().by_source.get_mut(source) {
            Some(wait_queue) => wait_queue.ring(lane),
            None => false,
        };
        if start {
            self.spawn_serve_loop(source.clone());
        }
    }

    /// Whether the last calls for all lanes of a source failed.
    pub(super) fn is_failing(&self, source: &Source) -> bool {
        let wait_queues = self.wait_queues.lock();
        let wait_queue = wait_queues.by_source.get(source);
        wait_queue.is_some_and(WaitQueue::has_failed_everywhere)
    }

    /// Removes the seats with these tickets from wait queues. The seats of consumers that still wait are kept.
    pub(super) fn leave(self: &Arc<Self>, entered: impl IntoIterator<Item = (Source, u64)>) {
        let mut entered = entered.into_iter().peekable();
        if entered.peek().is_none() {
            return;
        }
        let mut wait_queues = self.wait_queues.lock();
        for (source, ticket) in entered {
            let Some(wait_queue) = wait_queues.by_source.get_mut(&source) else {
                continue;
            };
            wait_queue.leave(ticket);
            let unserved = wait_queue.take_unserved();
            if wait_queue.is_idle() {
                wait_queues.by_source.remove(&source);
            }
            self.pass_on(&source, &unserved);
        }
    }

    /// The same, `step` wait queues at a time, and other tasks in between.
    pub(super) fn leave_in_steps(self: &Arc<Self>, mut entered: Vec<(Source, u64)>, step: usize) {
        let shared = Arc::clone(self);
        let leaving = async move {
            while !entered.is_empty() {
                yield_now().await;
                let rest = entered.len().saturating_sub(step);
                shared.leave(entered.drain(rest..));
            }
        };
        self.tasks.spawn_on(leaving, &self.runtime);
    }

    /// Passes the doorbells of lanes on to other processes, since no consumer of this one waits for the source any
    /// more.
    pub(super) fn pass_on(self: &Arc<Self>, source: &Source, lanes: &[u16]) {
        let Some(state) = self.pools.get(&source.pool) else {
            return;
        };
        for lane in lanes {
            let bucket = state.pool.store().bucket_of(source.queue.lane(*lane));
            self.pass_on_in(bucket, source.clone());
        }
    }

    /// The same for the lane in a bucket.
    pub(super) fn pass_on_in(self: &Arc<Self>, bucket: u16, source: Source) {
        let shared = Arc::clone(self);
        let passing_on = async move {
            let (source, until) = ([source], Instant::now() + shared.poll_interval);
            // Until then consumers of other processes wait for a poll.
            while !shared.withdraw(bucket, &source).await && Instant::now() < until {
                tokio::select! {
                    () = shared.closed.cancelled() => return,
                    () = sleep(PASS_ON_PAUSE) => {}
                }
            }
        };
        self.tasks.spawn_on(passing_on, &self.runtime);
    }

    /// Ends the registrations for lanes of these sources, which are of one pool, in a bucket. Consumers that have come
    /// meanwhile check them again: their rounds may have registered the process before that. Returns whether all calls
    /// succeeded; otherwise the registrations end with their period.
    pub(super) async fn withdraw(self: &Arc<Self>, bucket: u16, sources: &[Source]) -> bool {
        let state = sources
            .first()
            .and_then(|first| self.pools.get(&first.pool));
        let Some(store) = state.map(|state| state.pool.store()) else {
            return true;
        };
        let mut is_done = true;
        for sources in sources.chunks(POLL_QUEUES_MAX) {
            let queues = sources.iter().map(|source| &source.queue);
            is_done &= store.withdraw(bucket, queues).await.is_ok();
            for source in sources {
                self.ring(source, None);
            }
        }
        is_done
    }

    /// Ends all registrations of the process. They are hints: a call that fails is not repeated.
    pub(super) async fn withdraw_everywhere(self: &Arc<Self>) {
        let mut registered: HashMap<(Arc<str>, u16), Vec<Source>> = HashMap::default();
        for (source, wait_queue) in &mut self.wait_queues.lock().by_source {
            let Some(state) = self.pools.get(&source.pool) else {
                continue;
            };
            for lane in wait_queue.take_registrations() {
                let bucket = state.pool.store().bucket_of(source.queue.lane(lane));
                let sources = registered.entry((Arc::clone(&source.pool), bucket));
                sources.or_default().push(source.clone());
            }
        }
        let calls = registered.into_iter().map(async |((_, bucket), sources)| {
            self.withdraw(bucket, &sources).await;
        });
        join_all(calls).await;
    }

    /// Releases undelivered jobs of one lane in one call, last reserved first, so that the oldest becomes the next one
    /// of its queue again. In separate calls they could change places: of jobs that Redis refuses as unknown, until the
    /// script is loaded, some are sent again after others were executed. The next round of their `lane`, which would
    /// take the jobs behind them, begins after the first call, also if that fails.
    pub(super) fn release(
        self: &Arc<Self>,
        source: Source,
        lane: Option<u16>,
        jobs: Vec<LeasedJob>,
    ) {
        let state = self.pools.get(&source.pool);
        let Some(state) = state.filter(|_| !jobs.is_empty()) else {
            return;
        };
        let (shared, pool) = (Arc::clone(self), Arc::clone(&state.pool));
        let giving_back = async move {
            let newest_first: Vec<_> = jobs.into_iter().rev().collect();
            let (mut held, until) = (Some(lane), Instant::now() + RELEASE_LIMIT);
            loop {
                let released = pool
                    .store()
                    .release_all(&source.queue, &newest_first, 0)
                    .await;
                // Once: a later round may hold the lane when a repetition is answered.
                match held.take() {
                    Some(lane) => shared.free(&source, lane),
                    None if released.is_ok() => shared.ring(&source, None),
                    None => {}
                }
                match released {
                    Ok(outcomes) => {
                        let done = outcomes.iter().filter(|it| **it == Outcome::Released);
                        return done.for_each(|_| pool.metrics.released());
                    }
                    Err(error) => record_store_error(&error),
                }
                // Otherwise the jobs come back when their leases expire, and an attempt is counted that no worker made.
                if Instant::now() > until || shared.closed.is_cancelled() {
                    return;
                }
                sleep(RELEASE_PAUSE).await;
            }
        };
        self.tasks.spawn_on(giving_back, &self.runtime);
    }

    /// Lets the next round of a lane begin.
    fn free(self: &Arc<Self>, source: &Source, lane: Option<u16>) {
        if let (Some(lane), Some(wait_queue)) =
            (lane, self.wait_queues.lock().by_source.get_mut(source))
        {
            wait_queue.free(lane);
        }
        self.ring(source, None);
    }
}
