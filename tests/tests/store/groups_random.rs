//! Random verbs on jobs of groups: no group exceeds its limit, and no job waits that may be leased.

use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::v1::job::JobChange;
use tidegate_core::v1::values::Priority;
use tidegate_core::{IfRunning, JobId, RetryPolicy};
use tidegate_store::{AfterFailure, FailRequest, LeasedJob, ReserveOptions};
use tidegate_testkit::{consistency, print_figure, seed};
use tokio::runtime::Runtime;

use crate::fixture::{START, StoreFixture, fixture};
use crate::groups::{grouped, limited};
use crate::random_cases::{cases_or, try_cases};

const SEQUENCES: u32 = 150;
/// The first is no group.
const GROUPS: [&str; 4] = ["", "a", "b", "c"];

#[derive(Debug, Clone)]
enum Step {
    Publish { group: usize, priority: u8 },
    Reserve { count: u16, limit: Option<u64> },
    Ack(prop::sample::Index),
    Retry(prop::sample::Index),
    Release(prop::sample::Index),
    Cancel(prop::sample::Index),
    Change(prop::sample::Index, u8),
    MoveDue,
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        6 => (0..GROUPS.len(), 0..3_u8).prop_map(|(group, priority)| Step::Publish { group, priority }),
        6 => (1..8_u16, prop::option::weighted(0.8, 1..3_u64)).prop_map(|(count, limit)| Step::Reserve { count, limit }),
        2 => index().prop_map(Step::Ack),
        1 => index().prop_map(Step::Retry),
        1 => index().prop_map(Step::Release),
        1 => index().prop_map(Step::Cancel),
        1 => (index(), 0..3_u8).prop_map(|(index, priority)| Step::Change(index, priority)),
        1 => Just(Step::MoveDue),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waits,
    Ready,
    Leased(u32),
}

struct GroupsRun<'a> {
    f: &'a StoreFixture,
    now_ms: u64,
    /// The group and the state of each job.
    jobs: BTreeMap<JobId, (usize, State)>,
    calls: u64,
}

impl GroupsRun<'_> {
    fn leased_of(&self, group: usize) -> u64 {
        let jobs = self.jobs.values();
        let leased = jobs.filter(|(of, state)| *of == group && matches!(state, State::Leased(_)));
        leased.count() as u64
    }

    fn chosen(&self, index: prop::sample::Index, leased: bool) -> Option<(JobId, u32)> {
        let jobs = self.jobs.iter().filter_map(|(id, (_, state))| match state {
            State::Leased(attempt) => Some((*id, *attempt)),
            _ if leased => None,
            _ => Some((*id, 0)),
        });
        let jobs: Vec<_> = jobs.collect();
        (!jobs.is_empty()).then(|| jobs[index.index(jobs.len())])
    }

    async fn reserve(&mut self, count: u16, limit: Option<u64>) -> usize {
        let options = limit.map_or_else(ReserveOptions::default, limited);
        let before: Vec<u64> = (0..GROUPS.len())
            .map(|group| self.leased_of(group))
            .collect();
        let got = self.f.take(self.now_ms, count, options).await;
        for job in &got {
            let (_, state) = self.jobs.get_mut(&job.id).unwrap();
            assert_eq!(*state, State::Ready, "{}", job.id);
            *state = State::Leased(job.attempt);
        }
        let most = limit.unwrap_or(u64::MAX);
        for (group, before) in before.into_iter().enumerate().skip(1) {
            let leased = self.leased_of(group);
            assert!(
                leased <= before.max(most),
                "group {group} has {leased} of {most}"
            );
        }
        let may_run = |group: usize| group == 0 || self.leased_of(group) < most;
        let mut jobs = self.jobs.values();
        let waits = jobs.any(|(group, state)| *state == State::Ready && may_run(*group));
        assert!(
            got.len() == usize::from(count) || !waits,
            "{got:?}: {:?}",
            self.jobs
        );
        got.len()
    }

    async fn end(&mut self, (id, attempt): (JobId, u32), how: &Step) {
        let (store, queue) = (self.f.store.at(self.now_ms), &self.f.queue);
        let leased = LeasedJob { id, attempt };
        let state = match how {
            Step::Retry(_) => {
                let then = AfterFailure::RetryInMs(10);
                let failed = FailRequest {
                    job: leased,
                    then,
                    error: "x".into(),
                };
                let policy = RetryPolicy::default();
                let _ = store.fail_all(queue, &[failed], &policy).await.unwrap();
                Some(State::Waits)
            }
            Step::Release(_) => {
                let _ = store.release_all(queue, &[leased], 0).await.unwrap();
                Some(State::Ready)
            }
            Step::Cancel(_) => {
                let _ = store.cancel(queue, id, IfRunning::Revoke).await.unwrap();
                None
            }
            _ => {
                let _ = store.ack(queue, id, Some(attempt)).await.unwrap();
                None
            }
        };
        match state {
            Some(state) => self.jobs.get_mut(&id).unwrap().1 = state,
            None => drop(self.jobs.remove(&id)),
        }
    }

    async fn move_due(&mut self) {
        self.now_ms += 2000;
        self.f.move_due(self.now_ms).await;
        // Three lost leases end a job.
        let stored = self.f.counts().await;
        for (_, state) in self.jobs.values_mut() {
            *state = State::Ready;
        }
        let mut gone = Vec::new();
        for id in self.jobs.keys() {
            let peeked = self
                .f
                .store
                .at(self.now_ms)
                .peek_job(&self.f.queue, *id)
                .await;
            let job = peeked.unwrap().unwrap().job;
            if job.state == tidegate_core::JobState::Dead {
                gone.push(*id);
            }
        }
        self.jobs.retain(|id, _| !gone.contains(id));
        assert_eq!(stored[2], 0, "leases have expired");
    }

    async fn step(&mut self, step: &Step) {
        self.calls += 1;
        match step {
            Step::Publish { group, priority } => {
                let job = grouped("x", GROUPS[*group], *priority);
                let id = self.f.publish(self.now_ms, job).await;
                self.jobs.insert(id, (*group, State::Ready));
            }
            Step::Reserve { count, limit } => drop(self.reserve(*count, *limit).await),
            Step::Ack(index) | Step::Retry(index) | Step::Release(index) => {
                if let Some(job) = self.chosen(*index, true) {
                    self.end(job, step).await;
                }
            }
            Step::Cancel(index) => {
                if let Some(job) = self.chosen(*index, false) {
                    self.end(job, step).await;
                }
            }
            Step::Change(index, priority) => {
                let Some((id, 0)) = self.chosen(*index, false) else {
                    return;
                };
                let priority = Some(Priority::saturating(*priority));
                let change = JobChange {
                    priority,
                    ..JobChange::default()
                };
                let _ = self
                    .f
                    .store
                    .at(self.now_ms)
                    .change(&self.f.queue, id, change)
                    .await
                    .unwrap();
            }
            Step::MoveDue => self.move_due().await,
        }
    }

    /// All jobs can be consumed one by one, and nothing is left.
    async fn finish(&mut self) {
        self.move_due().await;
        consistency::check(&self.f.redis.url()).await;
        while !self.jobs.is_empty() {
            assert!(self.reserve(64, Some(1)).await > 0, "{:?}", self.jobs);
            let leased = self.jobs.iter().filter_map(|(id, (_, state))| match state {
                State::Leased(attempt) => Some((*id, *attempt)),
                _ => None,
            });
            for (id, attempt) in leased.collect::<Vec<_>>() {
                let store = self.f.store.at(self.now_ms);
                let _ = store.ack(&self.f.queue, id, Some(attempt)).await.unwrap();
                self.jobs.remove(&id);
            }
        }
        let counts = self.f.counts().await;
        assert_eq!(counts[..3], [0; 3]);
        let left = self.f.keys_of_jobs();
        let left = left.iter().filter(|key| {
            key.contains("ready:") || key.contains("turns:") || key.contains("running:")
        });
        assert_eq!(left.collect::<Vec<_>>(), Vec::<&String>::new());
    }
}

async fn run(f: &StoreFixture, steps: &[Step]) -> u64 {
    f.forget_jobs();
    let mut run = GroupsRun {
        f,
        now_ms: START,
        jobs: BTreeMap::new(),
        calls: 0,
    };
    for step in steps {
        run.step(step).await;
    }
    run.finish().await;
    run.calls
}

#[test]
fn random_verbs_on_groups_exceed_no_limit_and_strand_no_job() {
    let (seed, sequences) = (seed(), cases_or(SEQUENCES));
    print_figure(&format!("{sequences} random sequences of verbs on groups"));
    let runtime = Runtime::new().unwrap();
    let fixture = runtime.block_on(fixture());
    let calls = Cell::new(0);
    try_cases(seed, sequences, &vec(step(), 10..80), |steps| {
        calls.set(calls.get() + runtime.block_on(run(&fixture, &steps)));
    });
    print_figure(&format!("{} calls", calls.get()));
}
