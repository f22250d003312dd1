//! Random sequences of verbs, with `core::lifecycle` as the oracle: after each verb the answer of Redis
//! must be the one that the lifecycle of every single job allows.
//!
//! The seed is printed; `TIDEGATE_SEED=<seed>` repeats a run, and a failing sequence is shortened to the
//! smallest one that fails.
mod oracle;
mod steps;

use proptest::strategy::Strategy;
use tidegate_core::lifecycle::{After, Event, Life};
use tidegate_core::{JobId, NewJob, QueueKey, State};
use tidegate_store::{Acked, Cancelled, Claim, Peeked, Released, Store};
use tidegate_testkit::{figure, seed};
use tokio::runtime::Runtime;

use self::oracle::Model;
use self::steps::{Step, step, step_or_miscount};
use crate::fixture::{Fixture, START, fixture, fixture_on_cluster, job};
use crate::random_cases::try_cases;
use crate::wrong_counts::miscount;

const SEQUENCES: u32 = 300;
const SEQUENCES_ON_CLUSTER: u32 = 60;

struct Run<'a> {
    fixture: &'a Fixture,
    queues: [QueueKey; 2],
    model: Model,
    counts_are_right: bool,
}

impl Run<'_> {
    fn store(&self) -> Store {
        self.fixture.store.at(self.model.now_ms)
    }

    fn job(&self, index: usize) -> Option<(JobId, QueueKey)> {
        let published = &self.model.published;
        let id = *published.get(index.checked_rem(published.len())?)?;
        let queue = self.model.jobs.get(&id).map_or(0, |(queue, _)| *queue);
        Some((id, self.queues[queue].clone()))
    }

    async fn step(&mut self, step: &Step) {
        match *step {
            Step::Publish {
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
            Step::Reserve {
                queue,
                count,
                ttr_ms,
            } => self.reserve(queue, count, ttr_ms).await,
            Step::Ack { job, attempt } => self.ack(job, attempt).await,
            Step::Cancel { job } => self.cancel(job).await,
            Step::Release { job, attempt } => self.release(job, attempt).await,
            Step::PeekJob { job } => self.peek_job(job).await,
            Step::PeekReady { queue } => {
                let peeked = self.store().peek_ready(&self.queues[queue]).await.unwrap();
                self.peeked(State::Ready, queue, peeked);
            }
            Step::PeekDead { queue } => {
                let peeked = self.store().peek_dead(&self.queues[queue]).await.unwrap();
                self.peeked(State::Dead, queue, peeked);
            }
            Step::Respawn {
                queue,
                limit,
                ttl_ms,
            } => self.respawn(queue, limit, ttl_ms).await,
            Step::PurgeReady { queue } => {
                self.store().purge_ready(&self.queues[queue]).await.unwrap();
                let gone = |life: &Life| life.state == State::Ready;
                self.model
                    .jobs
                    .retain(|_, (of, life)| *of != queue || !gone(life));
            }
            Step::PurgeDead { queue, limit } => self.purge_dead(queue, limit).await,
            Step::MoveDue { after_ms } => {
                self.model.now_ms += after_ms;
                let moved = self.fixture.move_due(self.model.now_ms).await;
                assert_eq!(self.model.move_due(), [moved.ready, moved.buried as usize]);
            }
            Step::Sweep => drop(self.fixture.sweep(self.model.now_ms).await),
            Step::Miscount {
                queue,
                state,
                count,
            } => self.miscount(queue, state, count),
        }
    }

    fn miscount(&mut self, queue: usize, state: State, count: i64) {
        self.counts_are_right = false;
        miscount(self.fixture, &self.queues[queue], state, count);
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
            let life = Life::published(now_ms, job.delay_ms, job.ttl_ms, job.tries);
            assert!(
                self.model.jobs.insert(id, (queue, life)).is_none(),
                "{id} twice"
            );
            self.model.published.push(id);
            if life.state == State::Ready {
                self.model.ready[queue].push_back([id].into());
            }
        }
    }

    async fn reserve(&mut self, queue: usize, count: u16, ttr_ms: u64) {
        let claims = [Claim { count, ttr_ms }];
        let reserved = self
            .store()
            .reserve(&self.queues[queue], &claims)
            .await
            .unwrap();
        let got = &reserved.jobs[0];
        for job in got {
            self.model.take(State::Ready, queue, Some(job.id));
            let after = self.model.apply(job.id, Event::Reserve { ttr_ms });
            let Some(After::Lives(life)) = after else {
                panic!("{:?}: {after:?}", job.id)
            };
            assert_eq!(life, life_of(job));
        }
        if got.len() < usize::from(count) {
            self.model.take(State::Ready, queue, None);
        }
    }

    async fn ack(&mut self, index: usize, attempt: Option<u32>) {
        let Some((id, queue)) = self.job(index) else {
            return;
        };
        let acked = self.store().ack(&queue, id, attempt).await.unwrap();
        let was = self.model.live(id).map(|life| life.state);
        match (acked, self.model.apply(id, Event::Ack { attempt })) {
            (Acked::Done { was: state, .. }, Some(After::Gone)) => assert_eq!(Some(state), was),
            (Acked::AlreadyGone, None) => {}
            (Acked::AlreadyGone, Some(After::Gone)) => assert_eq!(was, None),
            (Acked::Lost, Some(After::Refused)) => {}
            other => panic!("{other:?}"),
        }
    }

    async fn cancel(&mut self, index: usize) {
        let Some((id, queue)) = self.job(index) else {
            return;
        };
        let cancelled = self.store().cancel(&queue, id).await.unwrap();
        let was = self.model.live(id).map(|life| life.state);
        match (cancelled, self.model.apply(id, Event::Cancel)) {
            (Cancelled::Done { was: state }, Some(After::Gone)) => assert_eq!(Some(state), was),
            (Cancelled::AlreadyGone, None) => {}
            (Cancelled::AlreadyGone, Some(After::Gone)) => assert_eq!(was, None),
            (Cancelled::Leased, Some(After::Refused)) => {}
            other => panic!("{other:?}"),
        }
    }

    async fn release(&mut self, index: usize, attempt: u32) {
        let Some((id, queue)) = self.job(index) else {
            return;
        };
        let released = self.store().release(&queue, id, attempt).await.unwrap();
        match (released, self.model.apply(id, Event::Release { attempt })) {
            (Released::Done, Some(After::Lives(_))) => {
                let of = self.model.jobs[&id].0;
                self.model.ready[of].push_front([id].into());
            }
            (Released::AlreadyGone, None | Some(After::Gone)) => {}
            (Released::Lost, Some(After::Refused)) => {}
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

    fn peeked(&mut self, state: State, queue: usize, peeked: Option<Peeked>) {
        let heads = self.model.heads(state, queue);
        assert_eq!(peeked.is_none(), heads.is_empty(), "{heads:?}");
        assert!(peeked.is_none_or(|peeked| heads.contains(&peeked.job.id)));
    }

    /// Which of several jobs that died together were taken is only seen afterwards.
    async fn take_dead(
        &mut self,
        queue: usize,
        taken: u64,
        gone: impl Fn(&Option<Peeked>) -> bool,
    ) -> Vec<JobId> {
        let mut all = Vec::new();
        while (all.len() as u64) < taken {
            let before = all.len();
            for id in self.model.heads(State::Dead, queue) {
                let peeked = self
                    .store()
                    .peek_job(&self.queues[queue], id)
                    .await
                    .unwrap();
                if (all.len() as u64) < taken && gone(&peeked) {
                    self.model.take(State::Dead, queue, Some(id));
                    all.push(id);
                }
            }
            assert!(
                all.len() > before,
                "{taken} dead jobs were said to be taken, {all:?} are"
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
        let is_ready = |peeked: &Option<Peeked>| {
            peeked
                .as_ref()
                .is_some_and(|peeked| peeked.job.state == State::Ready)
        };
        let ids = self.take_dead(queue, respawned, is_ready).await;
        for id in &ids {
            self.model.apply(*id, Event::Respawn { ttl_ms });
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

    /// Between two sweeps Redis may count jobs that have expired, never fewer than live.
    async fn check_counts(&self) {
        if !self.counts_are_right {
            return;
        }
        for (queue, key) in self.queues.iter().enumerate() {
            let stats = self.store().stats(key).await.unwrap();
            let got = [stats.delayed, stats.ready, stats.leased, stats.dead];
            let live = self.model.counts(queue);
            assert!(
                got.iter().zip(live).all(|(got, live)| *got >= live),
                "{got:?} of {live:?}"
            );
        }
    }

    /// In the end the counts are exact, and Redis holds what the model holds and nothing else.
    async fn finish(&mut self) {
        for _ in 0..2 {
            self.model.now_ms += 1_000_000;
            self.fixture.sweep(self.model.now_ms).await;
        }
        let mut records = 0;
        for (queue, key) in self.queues.iter().enumerate() {
            let stats = self.store().stats(key).await.unwrap();
            let got = [stats.delayed, stats.ready, stats.leased, stats.dead];
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

fn life_of(job: &tidegate_core::Job) -> Life {
    Life {
        state: job.state,
        tries_left: job.tries_left,
        attempt: job.attempt,
        due_at_ms: job.due_at_ms,
        expires_at_ms: job.expires_at_ms,
    }
}

async fn run(fixture: &Fixture, steps: &[Step]) {
    let flush = redis::cmd("EVAL")
        .arg("for _, key in ipairs(redis.call('KEYS', 'tg:0:{8209}:*')) do if key ~= KEYS[1] then redis.call('DEL', key) end end")
        .arg(1)
        .arg("tg:0:{8209}:lock")
        .to_owned();
    flush.exec(&mut fixture.connection()).unwrap();
    let queues = ["shop/orders", "shop/mails"].map(|name| QueueKey::try_from(name).unwrap());
    let mut run = Run {
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
fn random_verbs_do_what_the_lifecycle_allows() {
    try_sequences(SEQUENCES, step(), fixture());
}

#[test]
fn random_verbs_do_on_a_cluster_what_the_lifecycle_allows() {
    try_sequences(SEQUENCES_ON_CLUSTER, step(), fixture_on_cluster());
}

/// A count is derived from the records: whatever it is, each job is delivered, and no other answer changes.
#[test]
fn random_verbs_do_with_damaged_counts_what_the_lifecycle_allows() {
    try_sequences(SEQUENCES, step_or_miscount(), fixture());
}

fn try_sequences(
    sequences: u32,
    step: impl Strategy<Value = Step>,
    fixture: impl Future<Output = Fixture>,
) {
    let seed = seed();
    figure(&format!("{sequences} random sequences of verbs"));
    let runtime = Runtime::new().unwrap();
    let fixture = runtime.block_on(fixture);
    let steps = proptest::collection::vec(step, 1..60);
    try_cases(seed, sequences, &steps, |steps| {
        runtime.block_on(run(&fixture, &steps));
    });
}
