//! Tests of the judge of native jobs: a valid history of each rule, and the nearest invalid one.

mod clock;
mod counts;
mod ends;
mod held;
mod keys;
mod leases;
mod repeats;
mod results;
mod times;

use tidegate_core::v1::values::Timestamp;
use tidegate_core::{IfExists, IfRunning};

use super::*;
use crate::history::{JobEndAnswer, RetryTimes, RunResult, ShownJob};

const QUEUE: u16 = 20;
const KEY: u32 = 1;
const LEASE: u64 = 2 * S;

/// A history of jobs of a native queue. Requests are answered after 1 ms.
#[derive(Debug, Clone)]
struct NativeHistoryBuilder {
    builder: HistoryBuilder,
    /// The id of the job that requests name.
    id: &'static str,
}

/// A version without a key, a delay and a limit of attempts.
fn plain(number: u64) -> VersionSpec {
    VersionSpec {
        number,
        bytes: 50,
        lease: LEASE,
        ..VersionSpec::default()
    }
}

fn delayed(number: u64, delay: u64) -> VersionSpec {
    let mut version = plain(number);
    version.delay = delay;
    version
}

/// Until this time.
fn extended_to(until: u64) -> Outcome {
    Outcome::Extended {
        lease_until: Timestamp::saturating(until / MS),
        cancel_requested: false,
    }
}

/// At this time.
fn retry_at(at: u64) -> Outcome {
    Outcome::Retry {
        run_at: Timestamp::saturating(at / MS),
    }
}

fn keyed(number: u64, if_exists: IfExists) -> VersionSpec {
    VersionSpec {
        key: Some(KEY),
        if_exists,
        ..plain(number)
    }
}

impl NativeHistoryBuilder {
    /// With a worker that requests jobs all the time and gets none.
    fn new() -> Self {
        let builder = HistoryBuilder(History {
            bound: S,
            began: T0,
            ended: T0 + 110 * S,
            ..History::default()
        });
        let request = ClientRequest::Reserve {
            queues: vec![QUEUE],
            lease: Some(LEASE),
            max_jobs: 1,
        };
        let nothing = RequestOutcome::Delivered(Vec::new());
        let whole = span(0, 110 * S);
        Self {
            builder: builder.operation_on(Wire::Native, whole, request, nothing),
            id: "A",
        }
    }

    /// Names another job from now on.
    const fn job(mut self, id: &'static str) -> Self {
        self.id = id;
        self
    }

    fn request(self, at: u64, request: ClientRequest, outcome: RequestOutcome) -> Self {
        self.operation(span(at, at + MS), request, outcome)
    }

    fn operation(mut self, at: Span, request: ClientRequest, outcome: RequestOutcome) -> Self {
        let builder = self.builder;
        self.builder = builder.operation_on(Wire::Native, at, request, outcome);
        self
    }

    /// A consumer of the lmstfy wire acks version 1.
    fn ack_on_lmstfy(mut self, at: u64) -> Self {
        let mut request = ack_of(1);
        if let ClientRequest::Settle { jobs, .. } = &mut request {
            jobs[0].id = self.id.to_owned();
        }
        self.builder = self.builder.request(at, request, acked());
        self
    }

    fn publish_with(self, at: u64, version: VersionSpec, outcome: RequestOutcome) -> Self {
        self.request(at, ClientRequest::publish(QUEUE, version), outcome)
    }

    fn publish_result(self, at: u64, version: VersionSpec, result: VersionResult) -> Self {
        let answer = RequestOutcome::Published(vec![result]);
        self.publish_with(at, version, answer)
    }

    /// Publishes a version; the script runs in the ms in which the request begins.
    fn publish(self, at: u64, version: VersionSpec, outcome: PublishResult) -> Self {
        let result = self.job_result(at, &version, outcome);
        self.publish_result(at, version, result)
    }

    fn job_result(&self, at: u64, version: &VersionSpec, outcome: PublishResult) -> VersionResult {
        let delay = version.delay;
        VersionResult::Job {
            id: self.id.to_owned(),
            outcome,
            state: match (outcome, delay) {
                (PublishResult::Rerun, _) => JobState::Leased,
                (_, 0) => JobState::Ready,
                _ => JobState::Delayed,
            },
            run_at: Some(T0 + at + if delay > 0 { delay + MS } else { 0 }),
            is_replayed: false,
        }
    }

    /// A worker gets this version at this time, with this attempt.
    fn deliver(self, at: u64, number: u64, attempt: u32) -> Self {
        self.deliver_with(at, number, attempt, |_| {})
    }

    fn deliver_with(
        self,
        at: u64,
        number: u64,
        attempt: u32,
        change: impl FnOnce(&mut Delivery),
    ) -> Self {
        let key = self.has_key(number).then_some(KEY);
        let mut got = Delivery {
            number: Some(number),
            id: self.id.to_owned(),
            key,
            queue: QUEUE,
            attempt: Some(attempt),
            failures: Some(0),
            tries_left: None,
            created: None,
            run_at: Some(T0),
            lease: String::new(),
            reserved: T0 + at,
            lease_until: T0 + at + LEASE + MS,
        };
        change(&mut got);
        let request = ClientRequest::Reserve {
            queues: vec![QUEUE],
            lease: Some(LEASE),
            max_jobs: 1,
        };
        let from = at.saturating_sub(100 * MS);
        let answer = RequestOutcome::Delivered(vec![got]);
        self.operation(span(from, at + MS), request, answer)
    }

    /// A consumer of the lmstfy wire gets this version.
    fn deliver_to_lmstfy(self, at: u64, number: u64, tries_left: u64) -> Self {
        self.deliver_to_lmstfy_with(at, number, tries_left, |_| {})
    }

    fn deliver_to_lmstfy_with(
        mut self,
        at: u64,
        number: u64,
        tries_left: u64,
        change: impl FnOnce(&mut Delivery),
    ) -> Self {
        let mut got = delivery_of(number, 0, at, tries_left);
        (got.id, got.queue) = (self.id.to_owned(), QUEUE);
        change(&mut got);
        let answer = RequestOutcome::Delivered(vec![got]);
        self.builder = self.builder.request(at, consume_of(&[QUEUE]), answer);
        self
    }

    fn has_key(&self, number: u64) -> bool {
        let mut published = self.builder.0.operations.iter();
        published.any(|operation| match &operation.request {
            ClientRequest::Publish { versions, .. } => versions
                .iter()
                .any(|it| it.number == number && it.key.is_some()),
            _ => false,
        })
    }

    fn settle_with(
        self,
        at: u64,
        (number, attempt): (u64, u32),
        action: SettleAction,
        outcome: RequestOutcome,
    ) -> Self {
        let held = HeldJob {
            queue: QUEUE,
            id: self.id.to_owned(),
            attempt: Some(attempt),
            lease: String::new(),
            number,
        };
        self.request(at, ClientRequest::settle(action, held), outcome)
    }

    fn settle(self, at: u64, of: (u64, u32), action: SettleAction, result: Outcome) -> Self {
        let answer = RequestOutcome::Settled(vec![result]);
        self.settle_with(at, of, action, answer)
    }

    fn ack(self, at: u64, number: u64, attempt: u32) -> Self {
        self.settle(at, (number, attempt), SettleAction::Ack, Outcome::DONE)
    }

    fn cancel_with(self, at: u64, running: IfRunning, outcome: RequestOutcome) -> Self {
        let call = ClientRequest::Cancel {
            queue: QUEUE,
            job: JobAddress::Id(self.id.to_owned()),
            running,
        };
        self.request(at, call, outcome)
    }

    fn cancel(self, at: u64, running: IfRunning, effect: CancelEffect) -> Self {
        let id = self.id.to_owned();
        let answer = RequestOutcome::Cancelled { id, effect };
        self.cancel_with(at, running, answer)
    }

    fn show(self, at: u64, change: impl FnOnce(&mut ShownJob)) -> Self {
        let mut shown = ShownJob {
            id: self.id.to_owned(),
            state: JobState::Ready,
            attempt: 0,
            failures: 0,
            losses: 0,
            died_of_losses: false,
        };
        change(&mut shown);
        let call = ClientRequest::Show {
            queue: QUEUE,
            job: JobAddress::Id(self.id.to_owned()),
        };
        self.request(at, call, RequestOutcome::Shown(Box::new(shown)))
    }

    fn respawn(mut self, at: u64) -> Self {
        let request = ClientRequest::Respawn {
            queue: QUEUE,
            limit: 10,
        };
        let outcome = RequestOutcome::Respawned(1);
        self.builder = self.builder.request(at, request, outcome);
        self
    }

    /// A failover from `from` to `to`, which may lose what was acknowledged meanwhile.
    fn failover(mut self, from: u64, to: u64) -> Self {
        let around = span(from, to);
        self.builder = self.builder.episode(Class::Failover, around, Some(around));
        self
    }

    #[track_caller]
    fn expect(&self, expected: &[Defect]) {
        self.builder.expect(expected);
    }
}
