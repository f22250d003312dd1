//! Random orders of everything that happens to the wait queues of three processes, beside a model of Redis: whatever
//! the order, once nothing is on its way no job is ready while a consumer waits, unless as many are leased as may be.

use std::collections::VecDeque;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const PROCESSES: usize = 3;
const SCHEDULES: u64 = 40_000;
const STEPS: usize = 100;

/// A queue with one lane in Redis.
#[derive(Default)]
struct ModelRedis {
    ready: usize,
    /// The processes that are registered, in the order in which they are rung.
    registered: VecDeque<usize>,
    /// Doorbells on their way, by process.
    doorbells: [usize; PROCESSES],
    leased: usize,
    /// The number of jobs that may be leased.
    limit: usize,
    /// Set while the limit holds jobs back: whether a process was rung since.
    at_limit: Option<bool>,
    /// The leased jobs that consumers have got.
    delivered: usize,
}

impl ModelRedis {
    fn ring_next(&mut self) {
        if let Some(process) = self.registered.pop_front() {
            self.doorbells[process] += 1;
        }
    }

    fn publish(&mut self, jobs: usize) {
        let was_empty = self.ready == 0;
        self.ready += jobs;
        if was_empty {
            self.ring_next();
        }
    }

    /// Leases end: the jobs are done, or are ready again.
    fn end_leases(&mut self, jobs: usize, are_ready: bool) {
        self.leased -= jobs;
        if are_ready && self.ready == 0 {
            return self.publish(jobs);
        }
        self.ready += if are_ready { jobs } else { 0 };
        if self.at_limit == Some(false) && self.leased < self.limit && self.ready > 0 {
            self.at_limit = Some(true);
            self.ring_next();
        }
    }

    fn ack(&mut self) {
        self.delivered -= 1;
        self.end_leases(1, false);
    }

    fn register(&mut self, process: usize) {
        if !self.registered.contains(&process) {
            self.registered.push_back(process);
        }
    }

    /// Returns the number of jobs for each claim, and whether the process is registered.
    fn reserve(&mut self, process: usize, waits: bool, claims: &[Claim]) -> (Vec<usize>, bool) {
        let (mut is_filled, places) = (true, self.limit.saturating_sub(self.leased));
        let mut left = places;
        let taken = claims.iter().map(|claim| {
            let wanted = left.min(claim.count.into());
            let taken = self.ready.min(wanted);
            self.ready -= taken;
            left -= taken;
            is_filled &= taken == wanted;
            taken
        });
        let taken = taken.collect();
        self.leased += places - left;
        let is_empty = !is_filled || self.ready == 0;
        let is_at_limit = !is_empty && left == 0;
        self.at_limit = is_at_limit.then_some(false);
        if !is_empty && !is_at_limit {
            self.ring_next();
        } else if waits {
            self.register(process);
        }
        (taken, (is_empty || is_at_limit) && waits)
    }

    fn withdraw(&mut self, process: usize) {
        self.registered.retain(|other| *other != process);
        if self.ready > 0 {
            self.ring_next();
        }
    }

    /// Whether the queue may have jobs.
    fn poll(&mut self, process: usize) -> bool {
        if self.ready == 0 {
            self.register(process);
        }
        self.ready > 0
    }
}

/// A call that a process makes, and its answer once Redis has executed it.
enum ModelCall {
    Reserve(Round, Option<(Vec<usize>, bool)>),
    Withdraw(bool),
    Poll(u64, Option<bool>),
}

#[derive(Default)]
struct ModelProcess {
    tested: Option<TestQueue>,
    calls: Vec<ModelCall>,
    /// Whether a serve loop is about to ask for a round.
    starts: bool,
}

impl ModelProcess {
    fn queue(&mut self) -> &mut WaitQueue {
        &mut self.tested.get_or_insert_with(TestQueue::new).wait_queue
    }

    fn pass_on(&mut self, lanes: &[u16]) {
        for _ in lanes {
            self.calls.push(ModelCall::Withdraw(false));
        }
    }

    fn enter(&mut self, waits: bool, rng: &mut StdRng) {
        let tested = self.tested.get_or_insert_with(TestQueue::new);
        let seat = Arc::new(Seat::new(Claim::new(rng.random_range(1..5), 1), waits));
        tested.seats.push(Arc::clone(&seat));
        let ticket = tested.seats.len() as u64 - 1;
        self.starts |= tested.wait_queue.enter(ticket, seat, !waits);
    }

    /// Consumers leave that have a job, do not wait, or (`any`) have lost their patience.
    fn leave(&mut self, rng: &mut StdRng, any: bool) {
        let seats = self.queue().seats.iter();
        let leaving = |seat: &Seat| !seat.is_waiting() || !seat.waits || any;
        let leaving: Vec<u64> = seats
            .filter(|(_, seat)| leaving(seat) && rng.random_bool(0.5))
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in leaving {
            let seat = Arc::clone(&self.queue().seats[&ticket]);
            self.queue().leave(ticket);
            let unserved = self.queue().take_unserved();
            self.pass_on(&unserved);
            assert_eq!(
                seat.leave(),
                None,
                "jobs leave the wait queue with their seat"
            );
        }
    }

    fn doorbell(&mut self) {
        self.starts |= self.queue().doorbell(Some(0));
    }

    fn serve(&mut self) {
        self.starts = false;
        match self.queue().next_round(1, Instant::now()) {
            Some(round) => self.calls.push(ModelCall::Reserve(round, None)),
            None => {
                let unserved = self.queue().take_unserved();
                self.pass_on(&unserved);
            }
        }
    }

    fn poll(&mut self) {
        if self.queue().is_parked() && self.queue().len() > 0 {
            let polled = self.queue().polled_lanes().next();
            let calls = polled.map(|(_, events)| ModelCall::Poll(events, None));
            self.calls.extend(calls);
        } else if self.queue().len() == 0 {
            let left = self.queue().take_registrations();
            self.pass_on(&left);
        }
    }

    /// Redis executes a call, or its answer arrives. Returns whether there was a call.
    fn advance(&mut self, own: usize, redis: &mut ModelRedis, rng: &mut StdRng) -> bool {
        if self.calls.is_empty() {
            return false;
        }
        let number = rng.random_range(0..self.calls.len());
        match self.calls.swap_remove(number) {
            ModelCall::Reserve(round, None) => {
                let answer = redis.reserve(own, round.waits, &round.claims);
                self.calls.push(ModelCall::Reserve(round, Some(answer)));
            }
            ModelCall::Reserve(round, Some((jobs, is_registered))) => {
                let tested = self.tested.get_or_insert_with(TestQueue::new);
                tested.registers = is_registered;
                let surplus = tested.hand_out(round, &jobs);
                redis.delivered += jobs.iter().sum::<usize>() - surplus;
                if surplus > 0 {
                    tested.wait_queue.free(0);
                    self.starts |= tested.wait_queue.ring(None);
                    redis.end_leases(surplus, true);
                }
                // The serve loop asks for its next round.
                self.starts = true;
            }
            ModelCall::Withdraw(false) => {
                redis.withdraw(own);
                self.calls.push(ModelCall::Withdraw(true));
            }
            ModelCall::Withdraw(true) => self.starts |= self.queue().ring(None),
            ModelCall::Poll(events, None) => {
                let answer = redis.poll(own);
                self.calls.push(ModelCall::Poll(events, Some(answer)));
            }
            ModelCall::Poll(_, Some(true)) => self.starts |= self.queue().ring(Some(0)),
            ModelCall::Poll(events, Some(false)) => self.queue().registered(0, events),
        }
        true
    }
}

/// The next event; everything that is on its way arrives in the end.
fn step(redis: &mut ModelRedis, all: &mut [ModelProcess], rng: &mut StdRng) {
    let own = rng.random_range(0..PROCESSES);
    let process = &mut all[own];
    match rng.random_range(0..14) {
        0 => redis.publish(rng.random_range(1..4)),
        1 | 2 => process.enter(rng.random_bool(0.8), rng),
        3 => process.leave(rng, true),
        4 => process.leave(rng, false),
        5 => process.poll(),
        6 | 7 if redis.doorbells[own] > 0 => {
            redis.doorbells[own] -= 1;
            process.doorbell();
        }
        8 | 9 if process.starts => process.serve(),
        12 | 13 if redis.delivered > 0 => redis.ack(),
        _ => {
            process.advance(own, redis, rng);
        }
    }
}

/// Lets all calls and messages arrive. No polls.
fn settle(redis: &mut ModelRedis, all: &mut [ModelProcess], rng: &mut StdRng) {
    loop {
        let mut is_settled = true;
        for (own, process) in all.iter_mut().enumerate() {
            if redis.doorbells[own] > 0 {
                redis.doorbells[own] -= 1;
                process.doorbell();
                is_settled = false;
            }
            if process.starts {
                process.serve();
                is_settled = false;
            }
            is_settled &= !process.advance(own, redis, rng);
        }
        if is_settled {
            return;
        }
    }
}

/// Fails if jobs that may be leased are ready while consumers wait.
fn check(redis: &ModelRedis, all: &[ModelProcess], seed: u64) {
    let waiting = |process: &ModelProcess| {
        let seats = process
            .tested
            .iter()
            .flat_map(|it| it.wait_queue.seats.values());
        seats.filter(|seat| seat.waits && seat.is_waiting()).count()
    };
    let waiting: Vec<usize> = all.iter().map(waiting).collect();
    let ModelRedis {
        ready,
        leased,
        limit,
        ..
    } = redis;
    assert!(leased <= limit, "seed {seed}: {leased} leased, not {limit}");
    assert!(
        *ready == 0 || leased == limit || waiting.iter().all(|count| *count == 0),
        "seed {seed}: {ready} ready jobs, {leased} of {limit} leased, waiting consumers {waiting:?}",
    );
}

#[test]
fn no_job_stays_ready_while_a_consumer_waits() {
    for seed in 0..SCHEDULES {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut redis = ModelRedis {
            limit: [usize::MAX, 1, 2, 5][(seed % 4) as usize],
            ..ModelRedis::default()
        };
        let mut all: [ModelProcess; PROCESSES] = std::array::from_fn(|_| ModelProcess::default());
        for _ in 0..STEPS {
            step(&mut redis, &mut all, &mut rng);
        }
        settle(&mut redis, &mut all, &mut rng);
        check(&redis, &all, seed);
        // Each place that becomes free is used.
        while redis.delivered > 0 {
            redis.ack();
            settle(&mut redis, &mut all, &mut rng);
            check(&redis, &all, seed);
        }
    }
}
