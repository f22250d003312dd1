//! The rounds of one wait queue: how its serve loop makes them.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

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
use crate::queue::policies::{DeliveryRules, QueueRate};
use crate::queue::serve_loop::{LaneCall, Role, ServedQueue, spawn_serve_loop};
use crate::units::RateUnits;

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

    async fn call(&self, _lane: u16, mut round: Round) {
        let mut rules = self.pool.policies.delivery_rules(&self.source.queue);
        if rules.is_paused {
            return self.find_nothing(round);
        }
        if rules.rates.is_empty() {
            self.reserve(round, &rules).await;
            return;
        }
        let rates = std::mem::take(&mut rules.rates);
        let Some(units) = self.take_units(rates, &round).await else {
            return self.fail(&round);
        };
        let delivered = match units.count {
            0 => {
                self.find_no_units(&round);
                Some(0)
            }
            count => {
                round.reduce_to(count);
                self.reserve(round, &rules).await
            }
        };
        // While the queue may have more jobs than units.
        if delivered == Some(units.count)
            && let Some(next) = units.next
        {
            self.hold(next);
        }
        // After a call that failed no seat has a job: what it may have leased is released. The next round of this process waits
        // for it: it would find fewer units than there are.
        let used = delivered.unwrap_or(0);
        units.give_back(self.pool.store(), used).await;
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
    /// Reserves jobs and delivers them. Returns how many were delivered; `None` if the call failed.
    async fn reserve(&self, round: Round, rules: &DeliveryRules) -> Option<u64> {
        ROUNDS.inc();
        let queue = &self.source.queue;
        let open = self.pool.lanes.open(queue);
        let claims = configured(&round.claims, rules);
        let share = |all| running_share_of(round.lane, open, all);
        let options = ReserveOptions {
            registers: round.waits,
            max_running: rules.max_running.map(share),
            group_max_running: rules.group_max_running,
        };
        let lane = round.lane;
        let store = self.pool.store();
        match store.reserve_with(queue.lane(lane), &claims, options).await {
            Ok(reserved) => {
                let jobs: usize = reserved.jobs.iter().map(Vec::len).sum();
                self.pool.metrics.reserved(jobs);
                let surplus = self.deliver(round, reserved);
                let left: Vec<_> = surplus.iter().flat_map(Reservation::leased).collect();
                let delivered = jobs.saturating_sub(left.len());
                if !left.is_empty() {
                    self.shared.release(self.source.clone(), Some(lane), left);
                }
                Some(delivered as u64)
            }
            Err(error) => {
                record_store_error(&error);
                self.fail(&round);
                None
            }
        }
    }

    /// Takes units for the claims of a round; `None` if the call failed.
    async fn take_units(&self, rates: Vec<QueueRate>, round: &Round) -> Option<RateUnits> {
        let taken = RateUnits::take(self.pool.store(), rates, round.wanted()).await;
        taken.inspect_err(record_store_error).ok()
    }

    /// Begins no further round before there may be a unit.
    fn hold(&self, next_unit: Duration) {
        self.pool.metrics.held_back(&self.source.queue);
        let shared = &self.shared;
        let timer = {
            let mut wait_queues = shared.wait_queues.lock();
            let timer = wait_queues.next_ticket;
            wait_queues.next_ticket += 1;
            let wait_queue = wait_queues.by_source.get_mut(&self.source);
            let is_new = wait_queue.is_some_and(|wait_queue| {
                wait_queue.hold(next_unit, shared.poll_interval, timer, Instant::now())
            });
            is_new.then_some(timer)
        };
        if let Some(timer) = timer {
            shared.spawn_hold_timer(self.source.clone(), timer);
        }
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

    /// Ends a round without units: its lane answers, and is checked after the hold.
    fn find_no_units(&self, round: &Round) {
        let had_failed = self.with_queue(|wait_queue| {
            let had_failed = wait_queue.has_failed(round.lane);
            wait_queue.found_no_units(round);
            had_failed
        });
        if had_failed == Some(true) {
            self.retry(RetrySignal::recovered);
        }
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

/// The claims of a round, with the lease of the queue's policy where a consumer asks for none.
fn configured(claims: &[Claim], rules: &DeliveryRules) -> Vec<Claim> {
    let mut claims = claims.to_vec();
    for claim in &mut claims {
        if claim.lease == LeaseLength::AsConfigured {
            claim.lease = LeaseLength::OfJobOrMs(rules.lease_ms);
        }
    }
    claims
}
