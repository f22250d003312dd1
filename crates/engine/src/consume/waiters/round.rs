//! The rounds of one wait queue: how its serve loop makes them.

use std::sync::{Arc, LazyLock};

use prometheus::IntCounter;
use tidegate_daemon::metrics::counter;
use tidegate_store::{Claim, LeaseLength, ReserveOptions, ReservedJobs};
use tokio::time::Instant;

use super::retry_signal::RetrySignal;
use super::seat::Reservation;
use super::shared::Shared;
use super::source::Source;
use super::wait_queue::{Deliveries, Round, WaitQueue};
use crate::metrics::storage_failure::record_store_error;
use crate::pool::Pool;
use crate::queue::lanes::running_share_of;
use crate::queue::serve_loop::{LaneCall, Role, ServedQueue, spawn_serve_loop};

static ROUNDS: LazyLock<IntCounter> = LazyLock::new(|| {
    counter(
        "tidegate_reserve_rounds_total",
        "Number of reserve calls to Redis; one call serves several consumers.",
    )
});

/// The number of seats with which a round no longer waits for others.
const GATHERED_SEATS_MAX: usize = 64;

impl Shared {
    /// Starts the serve loop of a wait queue. Must be called whenever a method of the wait queue returns that the
    /// caller must start it.
    pub(super) fn spawn_serve_loop(self: &Arc<Self>, source: Source) {
        let Some(state) = self.pools.get(&source.pool) else {
            return;
        };
        let rounds = Rounds {
            shared: Arc::clone(self),
            pool: Arc::clone(&state.pool),
            source,
        };
        spawn_serve_loop(Arc::new(rounds), Role::Leading);
    }
}

/// The rounds of the wait queue of one source.
struct Rounds {
    shared: Arc<Shared>,
    pool: Arc<Pool>,
    source: Source,
}

impl ServedQueue for Rounds {
    type Work = Round;

    fn lanes(&self) -> u16 {
        self.shared.lanes_of(&self.source)
    }

    fn gathered(&self) -> Option<usize> {
        let seats = self.with_queue(|wait_queue| wait_queue.len())?;
        (seats < GATHERED_SEATS_MAX).then_some(seats)
    }

    fn first(&self, role: Role) -> Option<LaneCall<Round>> {
        let lanes = self.lanes();
        let mut wait_queues = self.shared.wait_queues.lock();
        let wait_queue = wait_queues.by_source.get_mut(&self.source)?;
        let now = Instant::now();
        let round = wait_queue.next_round(lanes, now);
        if round.is_none() {
            wait_queue.served_at = Some(now);
            let unserved = wait_queue.take_unserved();
            self.shared.pass_on(&self.source, &unserved);
        }
        if wait_queue.is_idle() {
            wait_queues.by_source.remove(&self.source);
        }
        round.map(|work| LaneCall {
            role,
            lane: work.lane,
            work,
        })
    }

    /// A loop whose call took long takes the lead again if no other loop has it.
    fn next(&self, role: Role, _lane: u16) -> Option<LaneCall<Round>> {
        let leads = role == Role::Leading || self.start();
        leads.then(|| self.first(Role::Leading)).flatten()
    }

    async fn call(&self, _lane: u16, round: Round) {
        if self.pool.policies.is_paused(&self.source.queue) {
            return self.find_nothing(round);
        }
        ROUNDS.inc();
        let lane = self.source.queue.lane(round.lane);
        let claims = self.configured(&round.claims);
        let options = ReserveOptions {
            registers: round.waits,
            max_running: self.max_running(round.lane),
            group_max_running: self.pool.policies.group_max_running(&self.source.queue),
        };
        let store = self.pool.store();
        match store.reserve_with(lane, &claims, options).await {
            Ok(reserved) => {
                let jobs = reserved.jobs.iter().map(Vec::len).sum();
                self.pool.metrics.reserved(jobs);
                let lane = round.lane;
                let surplus = self.deliver(round, reserved);
                let jobs: Vec<_> = surplus.iter().flat_map(Reservation::leased).collect();
                if !jobs.is_empty() {
                    let source = self.source.clone();
                    self.shared.release(source, Some(lane), jobs);
                }
            }
            Err(error) => {
                record_store_error(&error);
                self.fail(&round);
            }
        }
    }

    fn release_lead(&self) -> Option<Role> {
        let starts = self.with_queue(|wait_queue| {
            wait_queue.release_lead();
            wait_queue.start()
        });
        starts?.then_some(Role::Leading)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.tasks.spawn_on(task, &self.shared.runtime);
    }

    /// The seats fail.
    fn abort(&self) {
        self.with_queue(WaitQueue::abort);
    }
}

impl Rounds {
    /// The claims of a round, with the lease of the queue's policy where a consumer asks for none.
    fn configured(&self, claims: &[Claim]) -> Vec<Claim> {
        let mut claims = claims.to_vec();
        let open = |claim: &&mut Claim| claim.lease == LeaseLength::AsConfigured;
        for claim in claims.iter_mut().filter(open) {
            let policy = self.pool.policies.policy(&self.source.queue);
            claim.lease = LeaseLength::OfJobOrMs(policy.lease_ms);
        }
        claims
    }

    /// The number of jobs of a lane that may be leased; `None` = not limited.
    fn max_running(&self, lane: u16) -> Option<u64> {
        let Pool {
            policies, lanes, ..
        } = &*self.pool;
        let all = policies.max_running(&self.source.queue)?;
        Some(running_share_of(lane, lanes.open(&self.source.queue), all))
    }

    /// Calls `change` with the wait queue, if it exists.
    fn with_queue<T>(&self, change: impl FnOnce(&mut WaitQueue) -> T) -> Option<T> {
        let mut wait_queues = self.shared.wait_queues.lock();
        wait_queues.by_source.get_mut(&self.source).map(change)
    }

    /// Marks a serve loop as running. Returns whether none ran before.
    fn start(&self) -> bool {
        self.with_queue(WaitQueue::start).unwrap_or(false)
    }

    /// Delivers the jobs of a round. Returns the jobs that no seat took.
    fn deliver(&self, round: Round, reserved: ReservedJobs) -> Vec<Reservation> {
        let Deliveries { served, surplus } = self.record_reserved(round, reserved);
        served.iter().for_each(|seat| seat.notify());
        surplus
    }

    fn record_reserved(&self, round: Round, reserved: ReservedJobs) -> Deliveries {
        let mut wait_queues = self.shared.wait_queues.lock();
        // A wait queue with a round in flight is never removed.
        let wait_queue = wait_queues
            .by_source
            .entry(self.source.clone())
            .or_default();
        if wait_queue.has_failed(round.lane) {
            self.retry(RetrySignal::recovered);
        }
        wait_queue.deliver(&self.source, round, reserved)
    }

    /// Ends a round for a paused queue. The queue is rung when its pause ends.
    fn find_nothing(&self, round: Round) {
        let nothing = ReservedJobs {
            jobs: vec![Vec::new(); round.claims.len()],
            now_ms: 0,
            is_registered: false,
        };
        self.with_queue(|wait_queue| wait_queue.deliver(&self.source, round, nothing));
    }

    fn fail(&self, round: &Round) {
        self.with_queue(|wait_queue| wait_queue.fail(round));
        self.retry(RetrySignal::failed);
    }

    fn retry(&self, report: impl FnOnce(&RetrySignal)) {
        if let Some(pool) = self.shared.pools.get(&self.source.pool) {
            report(&pool.retry);
        }
    }
}
