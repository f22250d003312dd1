//! Random sequences of all verbs on jobs of the native API and of lmstfy, with an oracle that knows the documented rules:
//! after each verb its outcome, all records, the index of keys, histories, counts and the order of lists are compared.
//!
//! The seed is printed; `TIDEGATE_SEED=<seed>` repeats a run, and a failing sequence is shortened.
//! `TIDEGATE_SEQUENCES=<number>` runs more of them.

mod consuming;
mod oracle;
mod publishing;
mod steps;
mod stored;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use bytes::Bytes;
use proptest::strategy::Strategy;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tidegate_core::RecordExtension;
use tidegate_core::{JobId, JobState, KeyHash, NativeOptions, NewJob, QueueKey};
use tidegate_store::{
    ChangeOutcome, IdempotencyKey, JobChange, JobReference, KeyedJob, KeyedOutcome, KeyedPublish,
    KeyedTerms, LeasedJob, PublishOutcome, Store,
};
use tidegate_testkit::{consistency, print_figure, seed};
use tokio::runtime::Runtime;

use self::oracle::{JobVersion, NativeModel};
use self::publishing::{PlannedJob, WINDOW_MS};
use self::steps::{DueSpec, JobSpec, NameSpec, NativeStep, QUEUES, step};
use self::stored::{QueueRows, Stored, check_order};
use crate::fixture::{START, StoreFixture, fixture, job};
use crate::random_cases::{cases_or, try_cases};

const SEQUENCES: u32 = 250;
/// Outcomes that any run has.
const EXPECTED: [&str; 18] = [
    "publish_keyed: Created",
    "publish_keyed: Exists",
    "publish_keyed: Replaced",
    "publish_keyed: Rerun",
    "publish_keyed: Replayed",
    "publish_keyed: KeyTaken",
    "publish_keyed: KeyReused",
    "publish_keyed: QueueFull",
    "publish_keyed atomic: QueueFull",
    "ack: Done",
    "ack: Lost",
    "fail: Retry",
    "fail: Dead",
    "touch: Extended",
    "release: Done",
    "cancel: Requested",
    "change: Done",
    "promote: NotWaiting",
];
/// Longer than any delay and time to live of a sequence.
const LONG_MS: u64 = 4_000_000_000;

struct NativeRun<'a> {
    fixture: &'a StoreFixture,
    connection: redis::Connection,
    queues: [QueueKey; QUEUES],
    names: Vec<String>,
    model: NativeModel,
    /// Lists of the queues after the last step.
    rows: Vec<QueueRows>,
    published: Vec<(usize, JobId)>,
    deliveries: Vec<(usize, LeasedJob)>,
    versions: u64,
    /// The jobs that the step put at the head of their list.
    released: BTreeSet<u64>,
    /// How often each verb had each outcome.
    outcomes: Outcomes,
}

type Outcomes = BTreeMap<String, u64>;

impl<'a> NativeRun<'a> {
    fn new(fixture: &'a StoreFixture) -> Self {
        let queues = ["shop/orders", "shop/mails"].map(|name| QueueKey::try_from(name).unwrap());
        Self {
            fixture,
            connection: fixture.connection(),
            names: queues.iter().map(ToString::to_string).collect(),
            queues,
            model: NativeModel {
                now_ms: START,
                ..NativeModel::default()
            },
            rows: vec![QueueRows::default(); QUEUES],
            published: Vec::new(),
            deliveries: Vec::new(),
            versions: 0,
            released: BTreeSet::new(),
            outcomes: Outcomes::new(),
        }
    }

    fn store(&self) -> Store {
        self.fixture.store.at(self.model.now_ms)
    }

    /// Counts an outcome by its name.
    fn note(&mut self, verb: &str, outcome: &impl Debug) {
        let text = format!("{outcome:?}");
        let end = text.find(|letter: char| !letter.is_alphanumeric());
        let name = format!("{verb}: {}", &text[..end.unwrap_or(text.len())]);
        *self.outcomes.entry(name).or_default() += 1;
    }

    fn key(&self, queue: usize, key: u8) -> KeyHash {
        KeyHash::of_job(&self.queues[queue], &format!("order-{key}"))
    }

    fn named(&self, queue: usize, name: NameSpec) -> Option<JobReference> {
        match name {
            NameSpec::Key(key) => Some(self.key(queue, key).into()),
            NameSpec::Published(index) => {
                let (_, id) = self
                    .published
                    .get(index.checked_rem(self.published.len())?)?;
                Some((*id).into())
            }
        }
    }

    /// The numbers of the jobs of a queue in a state.
    fn numbers(&self, queue: usize, state: JobState) -> BTreeSet<u64> {
        let jobs = self.model.jobs.iter();
        let jobs = jobs.filter(|(_, job)| job.queue == queue && job.state == state);
        jobs.map(|(id, _)| id.number()).collect()
    }

    /// The live jobs of a list of hints, in order.
    fn listed(&self, queue: usize, state: JobState) -> Vec<JobId> {
        let (rows, now_ms) = (&self.rows[queue], self.model.now_ms);
        let hints = if state == JobState::Ready {
            &rows.ready
        } else {
            &rows.dead
        };
        let mut listed: Vec<JobId> = Vec::new();
        for hint in hints {
            let jobs = self.model.jobs.iter();
            let mut live = jobs.filter(|(_, job)| job.queue == queue && !job.is_expired(now_ms));
            let found = live.find(|(id, job)| id.number() == *hint && job.state == state);
            listed.extend(found.map(|(id, _)| *id).filter(|id| !listed.contains(id)));
        }
        listed
    }

    fn version(&mut self, queue: usize, spec: &JobSpec, is_native: bool) -> JobVersion {
        self.versions += 1;
        let mut body = format!("{}:", self.versions)
            .repeat(spec.bytes)
            .into_bytes();
        body.truncate(spec.bytes);
        if !spec.compressible {
            StdRng::seed_from_u64(self.versions).fill_bytes(&mut body);
        }
        let now_ms = self.model.now_ms;
        let due_ms = match spec.due {
            DueSpec::InMs(delay_ms) => now_ms + delay_ms,
            DueSpec::Offset(ms) => now_ms.saturating_add_signed(ms).max(now_ms),
        };
        let extension = RecordExtension {
            key_hash: spec.key.map(|key| self.key(queue, key).0),
            group_hash: None,
            lease_ms: spec.lease_ms,
            max_attempts: spec.max_attempts,
            retry: spec.retry.clone(),
            retain_ms: spec.retain_ms,
        };
        let from_ms = if is_native { due_ms } else { now_ms };
        let is_limited = spec.start_within_ms > 0;
        JobVersion {
            body: Bytes::from(body),
            extension: if is_native {
                extension
            } else {
                RecordExtension::default()
            },
            due_ms,
            expires_ms: u64::from(is_limited) * (from_ms + spec.start_within_ms),
        }
    }

    fn new_job(&self, spec: &JobSpec, version: &JobVersion, tries: Option<u16>) -> NewJob {
        let now_ms = self.model.now_ms;
        let (delay_ms, run_at_ms) = match spec.due {
            DueSpec::InMs(delay_ms) => (delay_ms, None),
            DueSpec::Offset(ms) => (
                version.due_ms - now_ms,
                Some(now_ms.saturating_add_signed(ms)),
            ),
        };
        let native = NativeOptions {
            run_at_ms,
            extension: version.extension.clone(),
        };
        NewJob {
            body: version.body.clone(),
            delay_ms,
            ttl_ms: spec.start_within_ms,
            tries: tries.unwrap_or(0),
            native: tries.is_none().then(|| Box::new(native)),
            ..job("")
        }
    }

    async fn publish(
        &mut self,
        queue: usize,
        specs: &[JobSpec],
        tries: Option<u16>,
        max_jobs: Option<u64>,
        replaces: Option<usize>,
    ) {
        let mut versions = Vec::new();
        for spec in specs {
            versions.push(self.version(queue, spec, tries.is_none()));
        }
        let jobs = specs.iter().zip(&versions);
        let jobs: Vec<NewJob> = jobs
            .map(|(spec, version)| self.new_job(spec, version, tries))
            .collect();
        let name = replaces.map(NameSpec::Published);
        let replaced = name.and_then(|name| match self.named(queue, name)? {
            JobReference::Id(id) => Some(id),
            JobReference::Key(_) => None,
        });
        let store = self.store();
        let published = store.try_publish(&self.queues[queue], &jobs, replaced, max_jobs);
        let published = published.await.unwrap();
        let old = replaced.and_then(|id| self.model.named(queue, id.into()));
        let room = self.model.room(queue, max_jobs);
        let room = room.saturating_add(old.is_some().into());
        if (room.max(0).cast_unsigned() as usize) < jobs.len() {
            let expected = room.max(0).cast_unsigned();
            assert!(
                matches!(published, PublishOutcome::QueueFull { room } if room == expected),
                "{published:?}, room for {expected}"
            );
            return;
        }
        old.and_then(|id| self.model.jobs.remove(&id));
        let stored = published.stored().expect("there is room");
        for (id, version) in stored.ids.into_iter().zip(&versions) {
            self.model.create(queue, id, version, tries);
            self.published.push((queue, id));
        }
    }

    async fn publish_keyed(
        &mut self,
        queue: usize,
        specs: &[JobSpec],
        max_jobs: Option<u64>,
        atomic: bool,
    ) {
        let (mut planned, mut jobs) = (Vec::new(), Vec::new());
        for spec in specs {
            let version = self.version(queue, spec, true);
            let text = |key| format!("request-{key}");
            jobs.push(KeyedJob {
                job: self.new_job(spec, &version, None),
                if_exists: spec.if_exists,
                idempotency: spec.request.map(|(key, request)| IdempotencyKey {
                    key: KeyHash::of_request(&self.queues[queue], &text(key)),
                    request,
                }),
            });
            planned.push(PlannedJob {
                key: spec.key.map(|key| self.key(queue, key)),
                if_exists: spec.if_exists,
                request: spec.request,
                version,
            });
        }
        let terms = terms(max_jobs, atomic);
        let store = self.store();
        let published = store.publish_keyed(&self.queues[queue], jobs, terms).await;
        let (before, mut room) = (self.model.clone(), self.model.room(queue, max_jobs));
        let results = match published.unwrap() {
            KeyedPublish::Done { results, .. } => results,
            KeyedPublish::Refused { index, outcome } => {
                let made_up = |index| JobId::new(0, 0, 1 << 40 | index as u64, 0);
                let outcomes = planned.iter().enumerate().map(|(index, job)| {
                    let planned = self
                        .model
                        .publish_one(queue, job, &mut room, || made_up(index));
                    planned.0
                });
                let outcomes: Vec<_> = outcomes.collect();
                let first = outcomes.iter().position(|outcome| outcome.is_refusal());
                assert_eq!((atomic, first), (true, Some(index)), "{outcomes:?}");
                assert_eq!(outcomes[index], outcome);
                self.model = before;
                self.note("publish_keyed atomic", &outcome);
                return;
            }
        };
        for (result, job) in results.iter().zip(&planned) {
            let id = || result.job.expect("a created job").id;
            let (outcome, id) = self.model.publish_one(queue, job, &mut room, id);
            assert_eq!(result.outcome, outcome, "{results:?}");
            self.note("publish_keyed", &outcome);
            assert!(
                !atomic || !outcome.is_refusal(),
                "a part of an atomic call: {results:?}"
            );
            assert_eq!(result.job.map(|job| job.id), id);
            let model = id.and_then(|id| self.model.jobs.get(&id));
            let now_ms = self.model.now_ms;
            let live = model.filter(|job| !job.is_expired(now_ms));
            let shown = result.job.and_then(|job| Some((job.state?, job.run_at_ms)));
            let run_at_ms = |job: &oracle::ModelJob| match job.state {
                _ if outcome == KeyedOutcome::Rerun => job.next.as_ref().map(|next| next.due_ms),
                JobState::Leased | JobState::Done => None,
                _ => Some(job.version.due_ms),
            };
            assert_eq!(shown, live.map(|job| (job.state, run_at_ms(job))));
            self.published.extend(id.map(|id| (queue, id)));
        }
    }

    async fn change(&mut self, queue: usize, job: JobReference, change: JobChange) {
        let store = self.store();
        let changed = store
            .change(&self.queues[queue], job, change)
            .await
            .unwrap();
        self.note("change", &changed);
        match (changed, self.model.change(queue, job, change)) {
            (ChangeOutcome::Done(shown), Some(Ok(id))) => {
                let job = &self.model.jobs[&id];
                assert_eq!(shown.id, id);
                let (due_ms, expires_ms) = (shown.due_at_ms, shown.expires_at_ms);
                let expected = (job.version.due_ms, job.version.expires_ms);
                assert_eq!((shown.state, (due_ms, expires_ms)), (job.state, expected));
                assert_eq!(shown.body, job.version.body);
            }
            (ChangeOutcome::NotWaiting(state), Some(Err(expected))) => assert_eq!(state, expected),
            (ChangeOutcome::AlreadyGone, None) => {}
            other => panic!("{other:?}"),
        }
    }

    async fn peek(&mut self, queue: usize, job: JobReference) {
        let store = self.store();
        let peeked = store.peek_job(&self.queues[queue], job).await.unwrap();
        let id = self.model.named(queue, job);
        let live = id.filter(|id| !self.model.jobs[id].is_expired(self.model.now_ms));
        assert_eq!(peeked.as_ref().map(|peeked| peeked.job.id), live);
        if let (Some(peeked), Some(id)) = (peeked, live) {
            let job = &self.model.jobs[&id];
            assert_eq!(
                (peeked.job.state, &peeked.job.body),
                (job.state, &job.version.body)
            );
        }
    }

    async fn step(&mut self, step: &NativeStep) {
        match step {
            NativeStep::PublishKeyed {
                queue,
                jobs,
                max_jobs,
                atomic,
            } => {
                self.publish_keyed(*queue, jobs, *max_jobs, *atomic).await;
            }
            NativeStep::Publish {
                queue,
                jobs,
                tries,
                max_jobs,
                replaces,
            } => {
                self.publish(*queue, jobs, *tries, *max_jobs, *replaces)
                    .await;
            }
            NativeStep::Cancel {
                queue,
                job,
                if_running,
            } => {
                let Some(job) = self.named(*queue, *job) else {
                    return;
                };
                let store = self.store();
                let cancelled = store.cancel(&self.queues[*queue], job, *if_running);
                let cancelled = cancelled.await.unwrap();
                self.note("cancel", &cancelled);
                assert_eq!(cancelled, self.model.cancel(*queue, job, *if_running));
            }
            NativeStep::Change { queue, job, change } => {
                let Some(job) = self.named(*queue, *job) else {
                    return;
                };
                self.change(*queue, job, *change).await;
            }
            NativeStep::Promote { queue, job } => {
                let Some(job) = self.named(*queue, *job) else {
                    return;
                };
                let store = self.store();
                let promoted = store.promote(&self.queues[*queue], job).await.unwrap();
                self.note("promote", &promoted);
                assert_eq!(promoted, self.model.promote(*queue, job));
            }
            NativeStep::Peek { queue, job } => {
                let Some(job) = self.named(*queue, *job) else {
                    return;
                };
                self.peek(*queue, job).await;
            }
            NativeStep::Wait { ms } => self.model.now_ms += ms,
            NativeStep::MoveDue { after_ms } => {
                self.model.now_ms += after_ms;
                let moved = self.fixture.move_due(self.model.now_ms).await;
                assert_eq!([moved.ready, moved.buried as usize], self.model.move_due());
            }
            NativeStep::Sweep => drop(self.fixture.sweep(self.model.now_ms).await),
            other => self.consume(other).await,
        }
    }

    /// Compares Redis with the model after a step.
    fn check(&mut self, before: &[BTreeSet<u64>]) {
        let stored = Stored::read(&mut self.connection);
        stored.compare(&mut self.model, &self.names);
        for (queue, before) in before.iter().enumerate() {
            let (rows, ready) = (
                stored.queue(&self.names[queue]),
                self.numbers(queue, JobState::Ready),
            );
            let old = (&self.rows[queue].ready[..], before);
            check_order(old, (&rows.ready, &ready), &self.released);
            self.rows[queue] = rows;
        }
    }

    async fn checked_step(&mut self, step: &NativeStep) {
        let ready: Vec<_> = (0..QUEUES)
            .map(|queue| self.numbers(queue, JobState::Ready))
            .collect();
        self.released.clear();
        self.step(step).await;
        self.check(&ready);
    }

    /// A change of its time may leave a hint of a job of lmstfy in the list of ready jobs, which is live again later.
    async fn check_consistency(&self) {
        let mut defects = consistency::defects(&self.fixture.redis.url()).await;
        let is_repeated = |defect: &str| {
            defect.contains("ready and in its list") && !defect.ends_with(" 0 times")
        };
        defects.retain(|defect| !is_repeated(defect));
        assert!(defects.is_empty(), "{defects:#?}");
    }

    /// Histories are right, expired jobs are swept, and all others can be consumed; then nothing is left of them.
    async fn finish(&mut self) {
        for (id, job) in &self.model.jobs {
            let stored = self.fixture.store.history(*id).await.unwrap();
            assert_eq!(stored, job.history, "history of {id}");
        }
        self.check_consistency().await;
        let drain = [
            NativeStep::MoveDue { after_ms: LONG_MS },
            NativeStep::Sweep,
            NativeStep::Wait { ms: LONG_MS },
            NativeStep::Sweep,
        ];
        for _ in 0..4 {
            for step in &drain {
                self.checked_step(step).await;
            }
            let now_ms = self.model.now_ms;
            let mut jobs = self.model.jobs.values();
            assert!(!jobs.any(|job| job.is_expired(now_ms)), "not swept");
            for queue in 0..QUEUES {
                self.consume_all(queue).await;
            }
        }
        assert!(self.model.jobs.is_empty(), "{:?}", self.model.jobs);
        let mut left = self.fixture.keys_of_jobs();
        left.retain(|key| {
            !["idem:", "near:", "far:", "slots", "upload:"]
                .iter()
                .any(|it| key.contains(it))
        });
        assert_eq!(left, Vec::<String>::new());
    }
}

async fn run(fixture: &StoreFixture, steps: &[NativeStep]) -> Outcomes {
    let flush = "for _, key in ipairs(redis.call('KEYS', 'tg:0:{8209}:*')) do \
                 if key ~= KEYS[1] then redis.call('DEL', key) end end";
    let mut run = NativeRun::new(fixture);
    let mut eval = redis::cmd("EVAL");
    eval.arg(flush).arg(1).arg("tg:0:{8209}:lock");
    eval.exec(&mut run.connection).unwrap();
    for step in steps {
        run.checked_step(step).await;
    }
    run.finish().await;
    run.outcomes
}

#[test]
fn random_verbs_of_the_native_api_follow_their_rules() {
    let (seed, sequences) = (seed(), cases_or(SEQUENCES));
    print_figure(&format!(
        "{sequences} random sequences of verbs of the native API"
    ));
    let runtime = Runtime::new().unwrap();
    let fixture = runtime.block_on(fixture());
    let steps = proptest::collection::vec(step().boxed(), 1..80);
    let all = RefCell::new(Outcomes::new());
    try_cases(seed, sequences, &steps, |steps| {
        for (outcome, times) in runtime.block_on(run(&fixture, &steps)) {
            *all.borrow_mut().entry(outcome).or_default() += times;
        }
    });
    let all = all.into_inner();
    print_figure(&format!(
        "{} calls with {} kinds of outcomes",
        all.values().sum::<u64>(),
        all.len()
    ));
    println!("{all:#?}");
    let seen = |outcome: &str| all.contains_key(outcome);
    let unseen: Vec<_> = EXPECTED.iter().filter(|outcome| !seen(outcome)).collect();
    assert!(sequences < SEQUENCES || unseen.is_empty(), "{unseen:?}");
}

const fn terms(max_jobs: Option<u64>, atomic: bool) -> KeyedTerms {
    KeyedTerms {
        max_jobs,
        is_closed: false,
        idempotency_window_ms: WINDOW_MS,
        atomic,
    }
}
