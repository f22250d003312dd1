//! Random sequences of all verbs on jobs of the native API and of lmstfy, with an oracle that knows the documented
//! rules: after each verb its outcome, all records with flags and results, the index of keys, histories, counts and the
//! order of lists are compared; after each sequence, the messages about the ends of jobs.
//!
//! The seed is printed; `TIDEGATE_SEED=<seed>` repeats a run, and a failing sequence is shortened.
//! `TIDEGATE_SEQUENCES=<number>` runs more of them.

mod cold;
mod consuming;
mod end_messages;
mod managing;
mod oracle;
mod producing;
mod steps;
mod stored;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;

use tidegate_core::{JobId, JobState, KeyHash, QueueKey};
use tidegate_store::{JobReference, LeasedJob, Store};
use tidegate_testkit::{consistency, print_figure, seed};
use tokio::runtime::Runtime;

use self::cold::{FrozenPayloads, cold_fixture, forget_segments};
use self::end_messages::EndMessages;
use self::oracle::{ModelJob, NativeModel};
use self::steps::{NameSpec, NativeStep, QUEUES, steps};
use self::stored::{QueueRows, Stored, check_order};
use crate::fixture::{START, StoreFixture};
use crate::random_cases::{cases_or, try_cases};

const SEQUENCES: u32 = 250;
/// Outcomes that any run has.
const EXPECTED: [&str; 31] = [
    "freeze: Some",
    "thaw: Some",
    "reserve: at its limit",
    "reserve: below its limit",
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
    "release: Released",
    "cancel: Requested",
    "change: Done",
    "promote: NotWaiting",
    "publish_keyed: Revived",
    "ack with results: Done",
    "ack with results: Rerun",
    "result: Done",
    "result: Dead",
    "result: NotEnded",
    "result: AlreadyGone",
    "result: of a worker",
    "result: of a job without its key",
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
    frozen: FrozenPayloads,
    /// The jobs whose payloads are in the cold tier after the last step.
    cold_jobs: BTreeSet<JobId>,
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
            frozen: FrozenPayloads::new(),
            cold_jobs: BTreeSet::new(),
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
        self.count(&format!("{verb}: {}", &text[..end.unwrap_or(text.len())]));
    }

    fn count(&mut self, outcome: &str) {
        *self.outcomes.entry(outcome.to_owned()).or_default() += 1;
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
            NameSpec::Delivered(index) => {
                let (_, leased) = self.deliveries.iter().rev().nth(index)?;
                Some(leased.id.into())
            }
        }
    }

    /// The numbers of the jobs of a queue in a state.
    fn numbers(&self, queue: usize, state: JobState) -> BTreeSet<u64> {
        let jobs = self.model.jobs.iter();
        let jobs = jobs.filter(|(_, job)| job.queue == queue && job.state == state);
        jobs.map(|(id, _)| id.number()).collect()
    }

    /// The numbers of the ready jobs of a queue, by priority.
    fn lines(&self, queue: usize) -> Vec<BTreeSet<u64>> {
        let mut lines = vec![BTreeSet::new(); 5];
        for (id, job) in &self.model.jobs {
            if job.queue == queue && job.state == JobState::Ready {
                lines[usize::from(job.version.priority)].insert(id.number());
            }
        }
        lines
    }

    /// The job of a hint, if it is in this state and has not expired.
    fn hinted(&self, queue: usize, state: JobState, hint: u64) -> Option<(JobId, &ModelJob)> {
        let now_ms = self.model.now_ms;
        let mut jobs = self.model.jobs.iter();
        let found = jobs.find(|(id, job)| job.queue == queue && id.number() == hint);
        let (id, job) = found.filter(|(_, job)| job.state == state && !job.is_expired(now_ms))?;
        Some((*id, job))
    }

    /// The dead jobs in the order of their list.
    fn dead(&self, queue: usize) -> Vec<JobId> {
        let mut listed: Vec<JobId> = Vec::new();
        for hint in &self.rows[queue].dead {
            let found = self.hinted(queue, JobState::Dead, *hint);
            listed.extend(found.map(|(id, _)| id).filter(|id| !listed.contains(id)));
        }
        listed
    }

    /// The ready jobs in the order in which they are delivered: those of the highest priority that has hints, but every
    /// eighth job is one of the lower priorities, in turn. A hint counts in the line of its job's priority.
    fn ready(&self, queue: usize) -> Vec<JobId> {
        let rows = &self.rows[queue];
        let mut lines: Vec<VecDeque<u64>> = rows
            .ready
            .iter()
            .map(|line| line.iter().copied().collect())
            .collect();
        let mut order: Vec<JobId> = Vec::new();
        // Levels are stored, which are 0 for the highest priority.
        let level = |number: u64| 4 - number as usize % 8;
        let mut place = rows.taken % 8;
        let (mut last_lower, mut before) = (level(rows.taken / 8), level(rows.taken / 64));
        loop {
            let with_hints = (0..lines.len()).rev().filter(|at| !lines[*at].is_empty());
            let with_hints: Vec<usize> = with_hints.collect();
            let Some(highest) = with_hints.first() else {
                return order;
            };
            let lower: Vec<usize> = with_hints
                .iter()
                .copied()
                .filter(|line| *line < before)
                .collect();
            let (line, next_lower) = match lower.first() {
                Some(first_lower) if place == 7 => {
                    let next = lower.iter().find(|line| **line < last_lower);
                    let next = *next.unwrap_or(first_lower);
                    (next, next)
                }
                _ => (*highest, last_lower),
            };
            let hint = lines[line].pop_front().expect("a line with hints");
            let found = self.hinted(queue, JobState::Ready, hint);
            let found = found.filter(|(_, job)| usize::from(job.version.priority) == line);
            let found = found.filter(|(id, _)| !order.contains(id));
            if let Some((id, _)) = found {
                // A stale hint takes no turn.
                (place, before, last_lower) = ((place + 1) % 8, line, next_lower);
                order.push(id);
            }
        }
    }

    /// The oldest ready job of the highest priority.
    fn next_ready(&self, queue: usize) -> Option<JobId> {
        let lines = self.rows[queue].ready.iter().enumerate().rev();
        let mut found = lines.flat_map(|(priority, line)| {
            let found = line
                .iter()
                .filter_map(|hint| self.hinted(queue, JobState::Ready, *hint));
            found.filter(move |(_, job)| usize::from(job.version.priority) == priority)
        });
        found.next().map(|(id, _)| id)
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
            NativeStep::Cancel { .. }
            | NativeStep::Change { .. }
            | NativeStep::Promote { .. }
            | NativeStep::Peek { .. }
            | NativeStep::Result { .. } => self.manage(step).await,
            NativeStep::Wait { ms } => self.model.now_ms += ms,
            NativeStep::MoveDue { after_ms } => {
                self.model.now_ms += after_ms;
                let moved = self.fixture.move_due(self.model.now_ms).await;
                assert_eq!([moved.ready, moved.buried as usize], self.model.move_due());
            }
            NativeStep::Freeze { skipped } => self.freeze(*skipped).await,
            NativeStep::Thaw => self.thaw().await,
            NativeStep::Sweep => drop(self.fixture.sweep(self.model.now_ms).await),
            other => self.consume(other).await,
        }
    }

    /// Compares Redis with the model after a step.
    fn check(&mut self, before: &[Vec<BTreeSet<u64>>]) {
        let stored = Stored::read(&mut self.connection, &self.frozen);
        stored.compare(&mut self.model, &self.names);
        self.cold_jobs = stored.cold_jobs();
        for (queue, before) in before.iter().enumerate() {
            let rows = stored.queue(&self.names[queue]);
            let after = self.lines(queue);
            let old = self.rows[queue].ready.iter().zip(before);
            for ((old, before), (new, after)) in old.zip(rows.ready.iter().zip(&after)) {
                check_order((old, before), (new, after), &self.released);
            }
            self.rows[queue] = rows;
        }
    }

    async fn checked_step(&mut self, step: &NativeStep) {
        let ready: Vec<_> = (0..QUEUES).map(|queue| self.lines(queue)).collect();
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
            !["cold_walk", "idem:", "near:", "far:", "slots", "upload:"]
                .iter()
                .any(|it| key.contains(it))
        });
        assert_eq!(left, Vec::<String>::new());
    }
}

async fn run(fixture: &StoreFixture, ends: &EndMessages, steps: &[NativeStep]) -> Outcomes {
    let mut run = NativeRun::new(fixture);
    fixture.forget_jobs();
    forget_segments(fixture).await;
    // Those of a sequence that has failed.
    ends.take(&mut run.connection).await;
    for step in steps {
        run.checked_step(step).await;
    }
    run.finish().await;
    let mut expected = run.model.ended;
    expected.sort_unstable();
    assert_eq!(ends.take(&mut run.connection).await, expected, "messages");
    run.outcomes
}

#[test]
fn random_verbs_of_the_native_api_follow_their_rules() {
    let (seed, sequences) = (seed(), cases_or(SEQUENCES));
    print_figure(&format!(
        "{sequences} random sequences of verbs of the native API"
    ));
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let fixture = runtime.block_on(cold_fixture(folder.path()));
    let ends = runtime.block_on(EndMessages::subscribe(&fixture.store));
    let steps = steps();
    let all = RefCell::new(Outcomes::new());
    try_cases(seed, sequences, &steps, |steps| {
        for (outcome, times) in runtime.block_on(run(&fixture, &ends, &steps)) {
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
