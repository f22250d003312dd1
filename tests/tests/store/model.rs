//! Random sequences of verbs, with `core::lifecycle` as the oracle: after each verb the answer of Redis must be one
//! that the lifecycle of each job allows.
//!
//! The seed is printed; `TIDEGATE_SEED=<seed>` repeats a run, and a failing sequence is shortened.
mod oracle;
mod steps;

use proptest::strategy::Strategy;
use tidegate_core::lifecycle::{LifecycleEvent, LifecycleState, Transition};
use tidegate_core::v1::consume::Outcome;
use tidegate_core::{JobId, JobState, NewJob, QueueKey};
use tidegate_store::{CancelOutcome, Claim, PeekedJob, Store};
use tidegate_testkit::{print_figure, seed};
use tokio::runtime::Runtime;

use self::oracle::Model;
use self::steps::{ModelStep, step, step_or_miscount};
use crate::fixture::{START, StoreFixture, fixture, fixture_on_cluster, job};
use crate::random_cases::try_cases;
use crate::wrong_counts::miscount;

const SEQUENCES: u32 = 300;
const SEQUENCES_ON_CLUSTER: u32 = 60;

struct ModelRun<'a> {
    fixture: &'a StoreFixture,
    queues: [QueueKey; 2],
    model: Model,
    counts_are_right: bool,
}

impl ModelRun<'_> {
    fn store(&self) -> Store {
        self.fixture.store.at(self.model.now_ms)
    }

    fn job(&self, index: usize) -> Option<(JobId, QueueKey)> {
        let published = &self.model.published;
        let id = *published.get(index.checked_rem(published.len())?)?;
        let queue = self.model.jobs.get(&id).map_or(0, |(queue, _)| *queue);
        Some((id, self.queues[queue].clone()))
    }

    async fn step(&mut self, step: &ModelStep) {
        match *step {
            ModelStep::Publish {
                queue,
                jobs,
                delay_ms,
                ttl_ms,
                tries,
                replaces,
            } => {
                let new = NewJob {
                    delay_ms,
                    ttl_ms,
                    tries,
                    ..job("x")
                };
                let replaced = replaces.and_then(|index| self.job(index));
                self.publish(
                    queue,
                    &vec![new; usize::from(jobs)],
                    replaced.map(|(id, _)| id),
                )
                .await;
            }
            ModelStep::Reserve {
                queue,
                count,
                ttr_ms,
            } => self.reserve(queue, count, ttr_ms).await,
            ModelStep::Ack { job, attempt } => self.ack(job, attempt).await,
            ModelStep::Cancel { job } => self.cancel(job).await,
            ModelStep::Release { job, attempt } => self.release(job, attempt).await,
            ModelStep::PeekJob { job } => self.peek_job(job).await,
            ModelStep::PeekReady { queue } => {
                let peeked = self.store().peek_ready(&self.queues[queue]).await.unwrap();
                self.peeked(JobState::Ready, queue, peeked);
            }
            ModelStep::PeekDead { queue } => {
                let peeked = self.store().peek_dead(&self.queues[queue]).await.unwrap();
                self.peeked(JobState::Dead, queue, peeked);
            }
            ModelStep::Respawn {
                queue,
                limit,
                ttl_ms,
            } => self.respawn(queue, limit, ttl_ms).await,
            ModelStep::PurgeReady { queue } => {
                self.store().purge_ready(&self.queues[queue]).await.unwrap();
                let gone = |life: &LifecycleState| life.state == JobState::Ready;
                self.model
                    .jobs
                    .retain(|_, (of, life)| *of != queue || !gone(life));
            }
            ModelStep::PurgeDead { queue, limit } => self.purge_dead(queue, limit).await,
            ModelStep::MoveDue { after_ms } => {
                self.model.now_ms += after_ms;
                let moved = self.fixture.move_due(self.model.now_ms).await;
                assert_eq!(self.model.move_due(), [moved.ready, moved.buried as usize]);
            }
            ModelStep::Sweep => drop(self.fixture.sweep(self.model.now_ms).await),
            ModelStep::Miscount {
                queue,
                state,
                count,
            } => self.miscount(queue, state, count),
        }
    }

    fn miscount(&mut self, queue: usize, state: JobState, count: i64) {
        self.counts_are_right = false;
        let queue = &self.queues[queue];
        miscount(self.fixture, queue, state, count);
        // A queue whose counts are all 0 may be forgotten: the only decision that counts make.
        miscount(self.fixture, queue, JobState::Done, 1);
    }

    async fn publish(&mut self, queue: usize, jobs: &[NewJob], replaces: Option<JobId>) {
        let ids = self
            .store()
            .publish(&self.queues[queue], jobs, replaces)
            .await
            .unwrap();
        if let Some(old) =
            replaces.filter(|old| self.model.jobs.get(old).is_some_and(|job| job.0 == queue))
        {
            self.model.jobs.remove(&old);
        }
        let now_ms = self.model.now_ms;
        for (id, job) in ids.into_iter().zip(jobs) {
            let life = LifecycleState::published(now_ms, job.delay_ms, job.ttl_ms, job.tries);
            assert!(
                self.model.jobs.insert(id, (queue, life)).is_none(),
                "{id} twice"
            );
            self.model.published.push(id);
            if life.state == JobState::Ready {
                self.model.ready[queue].push_back([id].into());
            }
        }
    }

    async fn reserve(&mut self, queue: usize, count: u16, ttr_ms: u64) {
        let claims = [Claim::new(count, ttr_ms)];
        let reserved = self
            .store()
            .reserve(&self.queues[queue], &claims)
            .await
            .unwrap();
        let got = &reserved.jobs[0];
        for job in got {
            self.model.take(JobState::Ready, queue, Some(job.id));
            let after = self.model.apply(job.id, LifecycleEvent::Reserve { ttr_ms });
            let Some(Transition::Lives(life)) = after else {
                panic!("{:?}: {after:?}", job.id)
            };
            assert_eq!(life, life_of(job));
        }
        if got.len() < usize::from(count) {
            self.model.take(JobState::Ready, queue, None);
        }
    }

    async fn ack(&mut self, index: usize, attempt: Option<u32>) {
        let Some((id, queue)) = self.job(index) else {
            return;
        };
        let acked = self.store().ack(&queue, id, attempt).await.unwrap();
        let was = self.model.live(id).map(|life| life.state);
        let transition = self.model.apply(id, LifecycleEvent::Ack { attempt });
        match (acked.outcome, transition) {
            (Outcome::DONE, Some(Transition::Gone)) => assert_eq!(acked.was, was),
            (Outcome::Gone, None) => {}
            (Outcome::Gone, Some(Transition::Gone)) => assert_eq!(was, None),
            (Outcome::Lost, Some(Transition::Refused)) => {}
            other => panic!("{other:?}"),
        }
    }

    async fn cancel(&mut self, index: usize) {
        let Some((id, queue)) = self.job(index) else {
            return;
        };
        let cancelled = self
            .store()
            .cancel(&queue, id, tidegate_core::IfRunning::Refuse)
            .await
            .unwrap();
        let was = self.model.live(id).map(|life| life.state);
        match (cancelled, self.model.apply(id, LifecycleEvent::Cancel)) {
            (CancelOutcome::Done { was: state, .. }, Some(Transition::Gone)) => {
                assert_eq!(Some(state), was)
            }
            (CancelOutcome::AlreadyGone, None) => {}
            (CancelOutcome::AlreadyGone, Some(Transition::Gone)) => assert_eq!(was, None),
            (CancelOutcome::Leased, Some(Transition::Refused)) => {}
            other => panic!("{other:?}"),
        }
    }

    async fn release(&mut self, index: usize, attempt: u32) {
        let Some((id, queue)) = self.job(index) else {
            return;
        };
        let released = self.store().release(&queue, id, attempt).await.unwrap();
        match (
            released,
            self.model.apply(id, LifecycleEvent::Release { attempt }),
        ) {
            (Outcome::Released, Some(Transition::Lives(_))) => {
                let of = self.model.jobs[&id].0;
                self.model.ready[of].push_front([id].into());
            }
            (Outcome::Gone, None | Some(Transition::Gone)) => {}
            (Outcome::Lost, Some(Transition::Refused)) => {}
            other => panic!("{other:?}"),
        }
    }

    async fn peek_job(&mut self, index: usize) {
        let Some((id, queue)) = self.job(index) else {
            return;
        };
        let peeked = self.store().peek_job(&queue, id).await.unwrap();
        assert_eq!(
            peeked.as_ref().map(|peeked| life_of(&peeked.job)),
            self.model.live(id).copied()
        );
    }

    fn peeked(&mut self, state: JobState, queue: usize, peeked: Option<PeekedJob>) {
        let heads = self.model.heads(state, queue);
        assert_eq!(peeked.is_none(), heads.is_empty(), "{heads:?}");
        assert!(peeked.is_none_or(|peeked| heads.contains(&peeked.job.id)));
    }

    /// Jobs that died together are in any order, so the test looks up which of them were taken.
    async fn take_dead(
        &mut self,
        queue: usize,
        taken: u64,
        gone: impl Fn(&Option<PeekedJob>) -> bool,
    ) -> Vec<JobId> {
        let mut all = Vec::new();
        while (all.len() as u64) < taken {
            let before = all.len();
            for id in self.model.heads(JobState::Dead, queue) {
                let peeked = self
                    .store()
                    .peek_job(&self.queues[queue], id)
                    .await
                    .unwrap();
                if (all.len() as u64) < taken && gone(&peeked) {
                    self.model.take(JobState::Dead, queue, Some(id));
                    all.push(id);
                }
            }
            assert!(
                all.len() > before,
                "the reply counts {taken} dead jobs, {all:?} were taken"
            );
        }
        all
    }

    async fn respawn(&mut self, queue: usize, limit: u64, ttl_ms: u64) {
        let dead = self.model.counts(queue)[3];
        let respawned = self
            .store()
            .respawn(&self.queues[queue], limit, ttl_ms)
            .await
            .unwrap();
        assert_eq!(respawned, limit.min(dead));
        let is_ready = |peeked: &Option<PeekedJob>| {
            peeked
                .as_ref()
                .is_some_and(|peeked| peeked.job.state == JobState::Ready)
        };
        let ids = self.take_dead(queue, respawned, is_ready).await;
        for id in &ids {
            self.model.apply(*id, LifecycleEvent::Respawn { ttl_ms });
        }
        self.model.ready[queue].push_back(ids.into_iter().collect());
    }

    async fn purge_dead(&mut self, queue: usize, limit: u64) {
        let dead = self.model.counts(queue)[3];
        let purged = self
            .store()
            .purge_dead(&self.queues[queue], limit)
            .await
            .unwrap();
        assert_eq!(purged, limit.min(dead));
        for id in self.take_dead(queue, purged, Option::is_none).await {
            self.model.jobs.remove(&id);
        }
    }

    /// Between two sweeps Redis may still count expired jobs, but never fewer than the live ones.
    async fn check_counts(&self) {
        if !self.counts_are_right {
            return;
        }
        for (queue, key) in self.queues.iter().enumerate() {
            let stats = self.store().stats(key).await.unwrap();
            let got = [
                stats.delayed,
                stats.ready,
                stats.leased,
                stats.dead,
                stats.done,
            ];
            let live = self.model.counts(queue);
            assert!(
                got.iter().zip(live).all(|(got, live)| *got >= live),
                "{got:?} of {live:?}"
            );
        }
    }

    /// At the end the counts are exact, and Redis has exactly the jobs of the model.
    async fn finish(&mut self) {
        for _ in 0..2 {
            self.model.now_ms += 1_000_000;
            self.fixture.sweep(self.model.now_ms).await;
        }
        let mut records = 0;
        for (queue, key) in self.queues.iter().enumerate() {
            let stats = self.store().stats(key).await.unwrap();
            let got = [
                stats.delayed,
                stats.ready,
                stats.leased,
                stats.dead,
                stats.done,
            ];
            let real = self.model.counts(queue);
            assert!(!self.counts_are_right || got == real, "{got:?} of {real:?}");
            records += real.iter().sum::<u64>();
        }
        let mut connection = self.fixture.connection();
        let chunks: Vec<String> = redis::cmd("KEYS")
            .arg("tg:0:{8209}:c:*")
            .query(&mut connection)
            .unwrap();
        let sizes = chunks.iter().map(|chunk| {
            redis::cmd("HLEN")
                .arg(chunk)
                .query::<u64>(&mut connection)
                .unwrap()
        });
        assert_eq!(sizes.sum::<u64>(), records);
        let moved = self.fixture.move_due(self.model.now_ms).await;
        assert_eq!(self.model.move_due(), [moved.ready, moved.buried as usize]);
        for queue in 0..self.queues.len() {
            self.reserve(queue, 1000, 1000).await;
        }
    }
}

fn life_of(job: &tidegate_core::Job) -> LifecycleState {
    LifecycleState {
        state: job.state,
        tries_left: job.tries_left,
        attempt: job.attempt,
        due_at_ms: job.due_at_ms,
        expires_at_ms: job.expires_at_ms,
    }
}

async fn run(fixture: &StoreFixture, steps: &[ModelStep]) {
    let flush = redis::cmd("EVAL")
        .arg("for _, key in ipairs(redis.call('KEYS', 'tg:0:{8209}:*')) do if key ~= KEYS[1] then redis.call('DEL', key) end end")
        .arg(1)
        .arg("tg:0:{8209}:lock")
        .to_owned();
    flush.exec(&mut fixture.connection()).unwrap();
    let queues = ["shop/orders", "shop/mails"].map(|name| QueueKey::try_from(name).unwrap());
    let mut run = ModelRun {
        fixture,
        queues,
        model: Model {
            now_ms: START,
            ..Model::default()
        },
        counts_are_right: true,
    };
    for step in steps {
        run.step(step).await;
        run.check_counts().await;
    }
    run.finish().await;
}

#[test]
fn random_verbs_follow_the_lifecycle() {
    try_sequences(SEQUENCES, step(), fixture());
}

#[test]
fn random_verbs_on_a_cluster_follow_the_lifecycle() {
    try_sequences(SEQUENCES_ON_CLUSTER, step(), fixture_on_cluster());
}

/// Counts are derived from the records: with any value, each job is delivered, and no other answer changes.
#[test]
fn random_verbs_with_damaged_counts_follow_the_lifecycle() {
    try_sequences(SEQUENCES, step_or_miscount(), fixture());
}

fn try_sequences(
    sequences: u32,
    step: impl Strategy<Value = ModelStep>,
    fixture: impl Future<Output = StoreFixture>,
) {
    let seed = seed();
    print_figure(&format!("{sequences} random sequences of verbs"));
    let runtime = Runtime::new().unwrap();
    let fixture = runtime.block_on(fixture);
    let steps = proptest::collection::vec(step, 1..60);
    try_cases(seed, sequences, &steps, |steps| {
        runtime.block_on(run(&fixture, &steps));
    });
}
