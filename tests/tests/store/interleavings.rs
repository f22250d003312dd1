//! Two pods and two pumps call the real scripts in random order: answers are lost and calls repeated, the clock is set
//! back, locks are stolen, scripts are flushed, and pumps work in steps of one or two hints.
//!
//! After each step the data must be consistent, and each delivery must be allowed. The seed is printed;
//! `TIDEGATE_SEED=<seed>` repeats a run, and a failing sequence is shortened.
//! `TIDEGATE_SEQUENCES=<number>` runs more of them.

mod judge;
mod steps;

use tidegate_core::v1::consume::Outcome;
use tidegate_core::{JobId, JobState, NewJob};
use tidegate_store::{
    CancelOutcome, Claim, LeaseOutcome, LoadSlotOutcome, MoveDueOutcome, Store, SweepOutcome,
};
use tidegate_testkit::{consistency, print_figure, seed};
use tokio::runtime::Runtime;

use self::judge::Judge;
use self::steps::{InterleavedStep, PODS, PUMPS, step};
use crate::fixture::{START, StoreFixture, fixture, job};
use crate::random_cases::{cases_or, try_cases};

const SEQUENCES: u32 = 60;
const TOKENS: [&str; PUMPS] = ["pump-1", "pump-2"];

struct InterleavedRun<'a> {
    fixture: &'a StoreFixture,
    now_ms: u64,
    leader: usize,
    judge: Judge,
    /// The leases that the consumers of each pod hold: job and attempt.
    held: [Vec<(JobId, u32)>; PODS],
}

impl InterleavedRun<'_> {
    fn store(&self) -> Store {
        self.fixture.store.at(self.now_ms)
    }

    async fn step(&mut self, step: &InterleavedStep) {
        match *step {
            InterleavedStep::Tick { after_ms } => self.set_clock(self.now_ms + after_ms),
            InterleavedStep::SetBack { by_ms } => self.set_clock(self.now_ms - by_ms),
            InterleavedStep::Publish {
                jobs,
                delay_ms,
                ttl_ms,
                tries,
                calls,
            } => {
                let new = NewJob {
                    delay_ms,
                    ttl_ms,
                    tries,
                    ..job("x")
                };
                self.publish(&vec![new; usize::from(jobs)], calls).await;
            }
            InterleavedStep::Reserve {
                pod,
                count,
                ttr_ms,
                heard,
            } => {
                self.reserve(pod, Claim::new(count, ttr_ms), heard).await;
            }
            InterleavedStep::Ack {
                pod,
                by_attempt,
                calls,
            } => self.ack(pod, by_attempt, calls).await,
            InterleavedStep::Release { pod } => self.release(pod).await,
            InterleavedStep::Cancel { job, calls } => self.cancel(job, calls).await,
            InterleavedStep::Respawn { ttl_ms } => {
                self.store()
                    .respawn(&self.fixture.queue, 2, ttl_ms)
                    .await
                    .unwrap();
                self.look_at_dead(ttl_ms).await;
            }
            InterleavedStep::Steal { pump } => self.steal(pump).await,
            InterleavedStep::LoadSlot { pump, limit } => {
                let loaded = self
                    .store()
                    .load_slot(0, TOKENS[pump], limit)
                    .await
                    .unwrap();
                assert_eq!(loaded == LoadSlotOutcome::NotLeading, pump != self.leader);
            }
            InterleavedStep::MoveDue { pump, limit } => {
                let moved = self
                    .store()
                    .move_due(0, TOKENS[pump], limit, crate::fixture::LOSSES_MAX)
                    .await
                    .unwrap();
                assert_eq!(moved == MoveDueOutcome::NotLeading, pump != self.leader);
                self.look_at_dead(0).await;
            }
            InterleavedStep::Sweep { pump, limit } => {
                let swept = self.store().sweep(0, TOKENS[pump], limit).await.unwrap();
                assert_eq!(swept == SweepOutcome::NotLeading, pump != self.leader);
            }
            InterleavedStep::ForgetScripts => {
                let flush = redis::cmd("SCRIPT").arg("FLUSH").to_owned();
                flush.exec(&mut self.fixture.connection()).unwrap();
            }
        }
    }

    fn set_clock(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.judge.clock(now_ms);
    }

    async fn publish(&mut self, jobs: &[NewJob], calls: u8) {
        for _ in 0..calls {
            let store = self.store();
            let published = store.publish(&self.fixture.queue, jobs, None).await;
            for id in published.unwrap() {
                self.judge.published(id, &jobs[0], self.now_ms);
            }
        }
    }

    async fn steal(&mut self, pump: usize) {
        let leased = self.store().lease_acquire(0, TOKENS[pump], &[]).await;
        assert_eq!(leased.unwrap(), LeaseOutcome::Ours);
        self.leader = pump;
    }

    async fn reserve(&mut self, pod: usize, claim: Claim, heard: bool) {
        let reserved = self
            .store()
            .reserve(&self.fixture.queue, &[claim])
            .await
            .unwrap();
        for job in reserved.jobs.into_iter().flatten() {
            self.judge
                .delivered(job.id, claim.lease.of(&job), self.now_ms);
            if heard {
                self.held[pod].push((job.id, job.attempt));
            }
        }
    }

    async fn ack(&mut self, pod: usize, by_attempt: bool, calls: u8) {
        let Some((id, attempt)) = self.held[pod].pop() else {
            return;
        };
        let attempt = by_attempt.then_some(attempt);
        for _ in 0..calls {
            let acked = self
                .store()
                .ack(&self.fixture.queue, id, attempt)
                .await
                .unwrap();
            if acked.outcome == Outcome::DONE {
                self.judge.ended(id, attempt);
            }
        }
    }

    async fn release(&mut self, pod: usize) {
        let Some((id, attempt)) = self.held[pod].pop() else {
            return;
        };
        let released = self
            .store()
            .release(&self.fixture.queue, id, attempt)
            .await
            .unwrap();
        if released == Outcome::Released {
            self.judge.released(id);
        }
    }

    async fn cancel(&mut self, job: usize, calls: u8) {
        let Some(id) = self.judge.id(job) else {
            return;
        };
        for _ in 0..calls {
            let cancelled = self
                .store()
                .cancel(&self.fixture.queue, id, tidegate_core::IfRunning::Refuse)
                .await
                .unwrap();
            if matches!(cancelled, CancelOutcome::Done { .. }) {
                self.judge.ended(id, None);
            }
        }
    }

    /// The replies do not say which jobs died or were respawned, so all jobs are looked up.
    async fn look_at_dead(&mut self, ttl_ms: u64) {
        for id in self.judge.ids() {
            let peeked = self
                .store()
                .peek_job(&self.fixture.queue, id)
                .await
                .unwrap();
            if let Some(peeked) = peeked {
                let is_dead = peeked.job.state == JobState::Dead;
                self.judge.seen(id, is_dead, ttl_ms, self.now_ms);
            }
        }
    }

    async fn check_world(&self) {
        let defects = consistency::defects(&self.fixture.redis.url()).await;
        assert!(defects.is_empty(), "{defects:#?}");
    }

    /// One pump then runs alone, and no job may stay delayed or leased.
    async fn finish(&mut self) {
        for id in self.judge.ids() {
            if self.judge.must_be_there(id) {
                let peeked = self
                    .store()
                    .peek_job(&self.fixture.queue, id)
                    .await
                    .unwrap();
                assert!(peeked.is_some(), "{id} is lost");
            }
        }
        self.now_ms += 1_000_000_000;
        let token = TOKENS[self.leader];
        while let LoadSlotOutcome::Done { more: true, .. } =
            self.store().load_slot(0, token, 50).await.unwrap()
        {}
        while let MoveDueOutcome::Done { more: true, .. } = self
            .store()
            .move_due(0, token, 50, crate::fixture::LOSSES_MAX)
            .await
            .unwrap()
        {}
        let counts = self.fixture.counts().await;
        assert_eq!(
            (counts[0], counts[2]),
            (0, 0),
            "jobs still wait: {counts:?}"
        );
        self.check_world().await;
    }
}

async fn run(fixture: &StoreFixture, steps: &[InterleavedStep]) {
    redis::cmd("FLUSHALL")
        .exec(&mut fixture.connection())
        .unwrap();
    let mut run = InterleavedRun {
        fixture,
        now_ms: START,
        leader: 0,
        judge: Judge::default(),
        held: Default::default(),
    };
    run.set_clock(START);
    run.step(&InterleavedStep::Steal { pump: 0 }).await;
    for step in steps {
        run.step(step).await;
        run.check_world().await;
    }
    run.finish().await;
}

#[test]
fn interleaved_calls_keep_the_data_consistent() {
    let (seed, cases) = (seed(), cases_or(SEQUENCES));
    print_figure(&format!(
        "{cases} random interleavings of two pods and two pumps"
    ));
    let runtime = Runtime::new().unwrap();
    let fixture = runtime.block_on(fixture());
    let steps = proptest::collection::vec(step(), 1..80);
    try_cases(seed, cases, &steps, |steps| {
        runtime.block_on(run(&fixture, &steps));
    });
}
