//! Jobs with planted defects, and the findings.

use tidegate_core::JobState;
use tidegate_core::v1::publish::PublishResult;
use tidegate_core::v1::values::Timestamp;

use super::super::load::{JobCourse, SoakQueue};
use super::*;
use crate::history::{ClientRequest, HeldJob, SettleAction, Span, VersionResult, Wire};

const MS: u64 = 1000;
const S: u64 = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(10);
const LEASE: u64 = 4 * S;
/// A queue of native clients.
const QUEUE: SoakQueue = SoakQueue {
    number: 5,
    from: Wire::Native,
    to: Wire::Native,
};

/// A stream, and the requests of its clients. Each takes 1 ms.
struct StreamClients(JobStream);

impl StreamClients {
    fn new() -> Self {
        Self(JobStream::new(PATIENCE))
    }

    fn operation(at: u64, request: ClientRequest, outcome: RequestOutcome) -> Operation {
        Operation {
            wire: Wire::Native,
            token: 0,
            is_without_proxy: true,
            span: Span {
                from: at,
                to: at + MS,
            },
            request,
            outcome,
        }
    }

    /// Publishes a job at the begin, with this outcome if it is not stored.
    fn publish(&mut self, delay_s: u64, outcome: Option<RequestOutcome>) -> u64 {
        let drawn = DrawnJob {
            queue: QUEUE,
            course: JobCourse::Plain,
            delay: Duration::from_secs(delay_s),
        };
        let number = self.0.begin(drawn, 0);
        let stored = RequestOutcome::Published(vec![VersionResult::Job {
            id: number.to_string(),
            outcome: PublishResult::Created,
            state: JobState::Ready,
            run_at: Some(delay_s * S),
            is_replayed: false,
        }]);
        let request = ClientRequest::publish(QUEUE.number, drawn.version(number));
        let publish = Self::operation(0, request, outcome.unwrap_or(stored));
        self.0.record(number, publish);
        self.0.release(number);
        number
    }

    /// Delivers an attempt of a job. The receiver keeps it.
    fn deliver(&mut self, number: u64, at: u64, attempt: u32) -> Vec<StreamDelivery> {
        let got = Delivery {
            number: Some(number),
            id: number.to_string(),
            key: None,
            queue: QUEUE.number,
            attempt: Some(attempt),
            failures: Some(0),
            tries_left: None,
            created: None,
            run_at: Some(0),
            reserved: at,
            lease_until: at + LEASE,
            lease: String::new(),
        };
        let request = ClientRequest::Reserve {
            queues: vec![QUEUE.number],
            lease: Some(LEASE),
            max_jobs: 1,
        };
        let answer = RequestOutcome::Delivered(vec![got]);
        self.0.deliver(Self::operation(at, request, answer))
    }

    fn settle(
        &mut self,
        (number, attempt): (u64, u32),
        at: u64,
        action: SettleAction,
        outcome: RequestOutcome,
    ) {
        let held = HeldJob {
            queue: QUEUE.number,
            id: number.to_string(),
            attempt: Some(attempt),
            lease: String::new(),
            number,
        };
        let request = ClientRequest::settle(action, held);
        self.0.record(number, Self::operation(at, request, outcome));
        self.0.release(number);
    }

    fn ack(&mut self, number: u64, attempt: u32, at: u64) {
        let done = RequestOutcome::Settled(vec![Outcome::DONE]);
        self.settle((number, attempt), at, SettleAction::Ack, done);
    }

    /// Returns the number of findings of this kind until then.
    fn found(&mut self, defect: Defect, now: u64) -> u64 {
        if let Some(closed) = self.0.take_closed(now) {
            self.0.add_findings(closed.judge());
        }
        self.0.counts().findings.get(&defect).copied().unwrap_or(0)
    }
}

fn no_answer() -> RequestOutcome {
    RequestOutcome::Unknown("no answer".to_owned())
}

#[test]
fn a_job_that_runs_as_it_should_is_no_finding_and_is_dropped() {
    let mut clients = StreamClients::new();
    let number = clients.publish(2, None);
    let first = clients.deliver(number, 2 * S, 1);
    assert!(first[0].is_first && first[0].drawn.is_some());
    assert_eq!(clients.0.pending(), 1);
    clients.ack(number, 1, 2 * S + 5 * MS);
    assert_eq!(clients.0.pending(), 0);
    clients.found(Defect::Lost, 100 * S);
    let expected = SoakCounts {
        published: 1,
        ended: 1,
        deliveries: 1,
        ..SoakCounts::default()
    };
    assert_eq!(clients.0.counts(), expected);
    assert!(clients.0.open.is_empty() && clients.0.closed.is_empty());
}

#[test]
fn a_job_that_never_comes_is_lost_only_if_it_existed() {
    let mut clients = StreamClients::new();
    clients.publish(2, None);
    let unanswered = clients.publish(0, Some(no_answer()));
    clients.publish(0, Some(RequestOutcome::NotSent));
    assert_eq!(clients.found(Defect::Lost, 12 * S), 0);
    assert_eq!(clients.found(Defect::Lost, 13 * S), 1);
    assert_eq!(clients.0.counts().unknown, 1);
    assert!(clients.0.described()[0].starts_with("lost: version 0 "));
    // It comes after all: a job whose publish had no answer may.
    assert!(clients.deliver(unanswered, 14 * S, 1)[0].drawn.is_none());
    assert_eq!(clients.found(Defect::AfterItsEnd, 14 * S), 0);
}

#[test]
fn a_second_delivery_is_a_finding_unless_the_lease_has_ended() {
    let twice = |second| {
        let mut clients = StreamClients::new();
        let number = clients.publish(0, None);
        clients.deliver(number, S, 1);
        clients.deliver(number, second, 2);
        clients.0.release(number);
        clients.ack(number, 2, second + 5 * MS);
        clients.found(Defect::Doubled, 20 * S)
    };
    assert_eq!(twice(S + LEASE), 0);
    assert_eq!(twice(2 * S), 1);
}

#[test]
fn a_job_does_not_come_after_its_end_and_not_from_elsewhere() {
    let mut clients = StreamClients::new();
    let number = clients.publish(0, None);
    clients.deliver(number, S, 1);
    clients.ack(number, 1, 2 * S);
    clients.found(Defect::AfterItsEnd, 3 * S);
    clients.deliver(number, 7 * S, 2);
    assert_eq!(clients.found(Defect::AfterItsEnd, 8 * S), 1);
    clients.deliver(77, 7 * S, 1);
    assert_eq!(clients.found(Defect::Foreign, 8 * S), 1);
}

#[test]
fn a_job_is_early_before_its_delay_and_before_its_retry() {
    let mut clients = StreamClients::new();
    let number = clients.publish(2, None);
    clients.deliver(number, 2 * S - MS, 1);
    let retry = Outcome::Retry {
        run_at: Timestamp::saturating((2 * S + 6 * S) / MS),
    };
    let fail = SettleAction::FailRetryIn(6 * S);
    let failed = RequestOutcome::Settled(vec![retry]);
    clients.settle((number, 1), 2 * S, fail, failed);
    clients.deliver(number, 7 * S, 2);
    clients.ack(number, 2, 7 * S + 5 * MS);
    assert_eq!(clients.found(Defect::Early, 8 * S), 2);
}

#[test]
fn a_job_whose_lease_was_lost_must_come_again() {
    let mut clients = StreamClients::new();
    let number = clients.publish(0, None);
    clients.deliver(number, S, 1);
    clients.0.release(number);
    assert_eq!(clients.found(Defect::Lost, 15 * S), 0);
    assert_eq!(clients.found(Defect::Lost, 15 * S + 1), 1);
}

#[test]
fn what_the_stream_keeps_does_not_grow_with_the_run() {
    let mut clients = StreamClients::new();
    for second in 0..12_000 {
        clients.publish(0, Some(no_answer()));
        clients.found(Defect::Lost, second * 11 * S);
    }
    assert!(clients.0.open.len() < 20 && clients.0.closed.is_empty());
    assert_eq!(clients.0.forgotten.len(), FORGOTTEN_MAX);
}
