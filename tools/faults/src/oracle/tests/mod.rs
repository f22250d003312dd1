//! Tests of the judge: histories with each kind of violation, and allowed ones.

mod clock;
mod ends;
mod native;
mod order;
mod queues;
mod requests;
mod times;
mod tokens;

use super::{Defect, judge};
use crate::fault::Class;
use crate::history::{
    CancelEffect, ClientRequest, Delivery, Episode, HeldJob, History, JobAddress, Operation,
    PublishMode, RequestOutcome, SettleAction, Span, UnixMicros, VersionResult, VersionSpec, Wire,
};
use tidegate_core::v1::consume::Outcome;
use tidegate_core::v1::publish::PublishResult;
use tidegate_core::{IfRunning, JobState};

const MS: u64 = 1000;
const S: u64 = 1000 * MS;
const TTR: u64 = 2 * S;
/// Begin of the histories in these tests.
const T0: UnixMicros = 1_800_000_000 * S;

/// A history of job 1 of queue 3. Times are in µs since its begin.
#[derive(Debug, Clone)]
struct HistoryBuilder(History);

fn span(from: u64, to: u64) -> Span {
    Span {
        from: T0 + from,
        to: T0 + to,
    }
}

fn version_spec(delay: u64, ttl: u64, tries: u64) -> VersionSpec {
    VersionSpec {
        number: 1,
        delay,
        ttl,
        tries,
        bytes: 50,
        ..VersionSpec::default()
    }
}

impl HistoryBuilder {
    /// With a consumer that requests jobs all the time and gets none.
    fn new() -> Self {
        let history = Self(History {
            bound: S,
            began: T0,
            ended: T0 + 110 * S,
            ..History::default()
        });
        history.consume(span(0, 110 * S), RequestOutcome::Delivered(Vec::new()))
    }

    fn operation(self, at: Span, request: ClientRequest, outcome: RequestOutcome) -> Self {
        self.operation_on(Wire::Lmstfy, at, request, outcome)
    }

    fn operation_on(
        mut self,
        wire: Wire,
        at: Span,
        request: ClientRequest,
        outcome: RequestOutcome,
    ) -> Self {
        self.0.operations.push(Operation {
            wire,
            token: 0,
            is_without_proxy: false,
            span: at,
            request,
            outcome,
        });
        self
    }

    fn publish_with(self, version_spec: VersionSpec, outcome: RequestOutcome) -> Self {
        self.operation(span(0, 5 * MS), publish_of(&[version_spec]), outcome)
    }

    /// Adds a successful publish; the job is stored 1 ms after the begin.
    fn publish(self, version_spec: VersionSpec) -> Self {
        self.publish_with(version_spec, stored(&[1]))
    }

    fn consume(self, at: Span, outcome: RequestOutcome) -> Self {
        self.operation(at, consume_of(&[3]), outcome)
    }

    /// Adds a delivery at this time with this many tries left, by a consume that waited for 100 ms.
    fn deliver(self, at: u64, tries_left: u64) -> Self {
        self.deliver_as(at, delivered(at, tries_left))
    }

    fn deliver_as(self, at: u64, got: Delivery) -> Self {
        let from = at.saturating_sub(100 * MS);
        self.consume(span(from, at + MS), RequestOutcome::Delivered(vec![got]))
    }

    fn ack(self, at: u64, outcome: RequestOutcome) -> Self {
        self.operation(span(at, at + MS), ack_of(1), outcome)
    }

    /// Adds a request that is answered after 1 ms.
    fn request(self, at: u64, request: ClientRequest, outcome: RequestOutcome) -> Self {
        self.operation(span(at, at + MS), request, outcome)
    }

    /// Adds a respawn of one dead job of the queue.
    fn respawn(self, at: u64) -> Self {
        let request = ClientRequest::Respawn {
            queue: 3,
            limit: 10,
        };
        self.request(at, request, RequestOutcome::Respawned(1))
    }

    fn cancel(self, at: u64) -> Self {
        self.request(at, cancel_of(1), cancelled(1))
    }

    fn episode(mut self, class: Class, at: Span, may_lose: Option<Span>) -> Self {
        let what = class.name();
        self.0.episodes.push(Episode {
            class,
            what,
            span: at,
            excuses_until: at.to,
            may_lose,
            unaffected_queues: Vec::new(),
            unaffected_from: 0,
            idle_closed: Vec::new(),
        });
        self
    }

    #[track_caller]
    fn expect(&self, expected: &[Defect]) {
        let verdict = judge(&self.0);
        let mut found: Vec<Defect> = verdict.findings.iter().map(|it| it.defect).collect();
        let mut expected = expected.to_vec();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{verdict:#?}");
    }
}

/// Job 1 of queue 3, created at 1 ms and reserved at this time.
fn delivered(at: u64, tries_left: u64) -> Delivery {
    delivery_of(1, MS, at, tries_left)
}

/// A job of queue 3, created and reserved at these times.
fn delivery_of(number: u64, created: u64, reserved: u64, tries_left: u64) -> Delivery {
    Delivery {
        number: Some(number),
        id: number.to_string(),
        key: None,
        queue: 3,
        attempt: None,
        failures: None,
        tries_left: Some(tries_left),
        created: Some(T0 + created),
        run_at: None,
        reserved: T0 + reserved,
        lease_until: T0 + reserved + TTR,
        lease: String::new(),
    }
}

fn publish_of(versions: &[VersionSpec]) -> ClientRequest {
    ClientRequest::Publish {
        queue: 3,
        mode: PublishMode::Batch,
        versions: versions.to_vec(),
        replaced: None,
    }
}

/// The answer to a publish of the lmstfy wire.
fn stored(numbers: &[u64]) -> RequestOutcome {
    let results = numbers.iter().map(|number| VersionResult::Job {
        id: number.to_string(),
        outcome: PublishResult::Created,
        state: JobState::Ready,
        run_at: None,
        is_replayed: false,
    });
    RequestOutcome::Published(results.collect())
}

fn consume_of(queues: &[u16]) -> ClientRequest {
    ClientRequest::Reserve {
        queues: queues.to_vec(),
        lease: Some(TTR),
        max_jobs: 1,
    }
}

/// An ack of the lmstfy wire.
fn ack_of(number: u64) -> ClientRequest {
    let held = HeldJob {
        queue: 3,
        id: number.to_string(),
        attempt: None,
        lease: String::new(),
        number,
    };
    ClientRequest::settle(SettleAction::Ack, held)
}

fn acked() -> RequestOutcome {
    RequestOutcome::Settled(vec![Outcome::DONE])
}

fn cancel_of(number: u64) -> ClientRequest {
    ClientRequest::Cancel {
        queue: 3,
        job: JobAddress::Id(number.to_string()),
        running: IfRunning::Revoke,
    }
}

fn cancelled(number: u64) -> RequestOutcome {
    RequestOutcome::Cancelled {
        id: number.to_string(),
        effect: CancelEffect::Gone,
    }
}

fn show_of(number: u64) -> ClientRequest {
    ClientRequest::Show {
        queue: 3,
        job: JobAddress::Id(number.to_string()),
    }
}

fn no_job() -> RequestOutcome {
    RequestOutcome::Unknown("hung up".to_owned())
}

#[test]
fn a_correct_history_has_no_findings() {
    let history = HistoryBuilder::new()
        .publish(version_spec(S, 0, 3))
        .deliver(S + 3 * MS, 2)
        .deliver(3 * S + 5 * MS, 1);
    history.ack(3 * S + 9 * MS, acked()).expect(&[]);
}

#[test]
fn a_job_that_is_never_delivered_is_lost() {
    let history = HistoryBuilder::new().publish(version_spec(S, 0, 1));
    history.expect(&[Defect::Lost]);
    history.clone().cancel(MS * 10).expect(&[]);
    // An ack without an answer may have been carried out; an ack that was not sent was not.
    history
        .clone()
        .deliver(S + 2 * MS, 0)
        .ack(2 * S, no_job())
        .expect(&[]);
    history
        .deliver(S + 2 * MS, 0)
        .ack(2 * S, RequestOutcome::NotSent)
        .expect(&[Defect::Lost]);
}

#[test]
fn a_job_whose_publish_is_open_may_exist_or_not() {
    let history = HistoryBuilder::new().publish_with(version_spec(S, 0, 1), no_job());
    history.expect(&[]);
    history
        .deliver(S + 2 * MS, 0)
        .ack(S + 5 * MS, acked())
        .expect(&[]);
}

#[test]
fn a_job_whose_publish_was_rejected_is_not_delivered() {
    let came = |outcome| {
        let history = HistoryBuilder::new()
            .publish_with(version_spec(0, 0, 1), outcome)
            .deliver(2 * MS, 0);
        history.ack(5 * MS, acked())
    };
    came(RequestOutcome::NotSent).expect(&[Defect::Foreign]);
    came(RequestOutcome::Refused(400)).expect(&[Defect::Foreign]);
    let cut = came(RequestOutcome::Failed(500)).episode(Class::NetCut, span(0, S), None);
    cut.expect(&[]);
    // A failure while memory is full is a rejection too, unless another fault may have caused it.
    let full = came(RequestOutcome::Failed(500)).episode(Class::MemoryFull, span(0, S), None);
    full.expect(&[Defect::Foreign]);
    full.episode(Class::NetCut, span(0, S), None).expect(&[]);
}

#[test]
fn a_job_may_disappear_only_when_it_expires() {
    HistoryBuilder::new()
        .publish(version_spec(S, 1500 * MS, 1))
        .expect(&[]);
    // It was available for 5 s while consumers waited for it.
    HistoryBuilder::new()
        .publish(version_spec(S, 6 * S, 1))
        .expect(&[Defect::Lost]);
    let stopped = HistoryBuilder::new().publish(version_spec(S, 6 * S, 1));
    stopped
        .episode(Class::RedisPause, span(S, 6 * S), None)
        .expect(&[]);
}

#[test]
fn what_redis_may_lose_is_counted_and_excused() {
    let around = span(0, S);
    let history = HistoryBuilder::new().publish(version_spec(S, 0, 1));
    let history = history.episode(Class::RedisKill, around, Some(around));
    history.expect(&[]);
    assert_eq!(judge(&history.0).counts.lost_with_redis, 1);
    let history = HistoryBuilder::new().publish(version_spec(S, 0, 1));
    let later = span(S, 2 * S);
    history
        .episode(Class::RedisKill, later, Some(later))
        .expect(&[Defect::Lost]);
}

#[test]
fn a_job_before_its_time_is_early() {
    let history = HistoryBuilder::new()
        .publish(version_spec(S, 0, 1))
        .deliver(S, 0);
    history.ack(2 * S, acked()).expect(&[Defect::Early]);
    let history = HistoryBuilder::new()
        .publish(version_spec(S, 0, 1))
        .deliver(S + MS, 0);
    history.ack(2 * S, acked()).expect(&[]);
}

#[test]
fn a_job_after_its_window_is_late() {
    let late = |at: u64| {
        let history = HistoryBuilder::new()
            .publish(version_spec(S, 0, 2))
            .deliver(at, 1);
        history.ack(at + 5 * MS, acked())
    };
    late(2 * S - MS).expect(&[]);
    late(2 * S + MS).expect(&[Defect::Late]);
    // The time of a fault does not count: due at 1 s, bound 1 s, delivered at 5 s.
    let excused = |from, to| late(5 * S).episode(Class::RedisPause, span(from, to), None);
    excused(1900 * MS, 4950 * MS).expect(&[]);
    excused(1900 * MS, 4850 * MS).expect(&[Defect::Late]);
    excused(0, 3900 * MS).expect(&[Defect::Late]);
    excused(0, 4100 * MS).expect(&[]);
    excused(2100 * MS, 4900 * MS).expect(&[Defect::Late]);
    let twice = excused(1500 * MS, 3 * S);
    let twice = |from| {
        let second = span(from, 4900 * MS);
        twice.clone().episode(Class::RedisPause, second, None)
    };
    twice(3300 * MS).expect(&[]);
    twice(3600 * MS).expect(&[Defect::Late]);
}

#[test]
fn a_consumer_that_hung_up_may_have_held_the_job() {
    // A try is missing; one consume can have used it, for the length of a lease.
    let taken = |tries_left| {
        let history = HistoryBuilder::new()
            .publish(version_spec(0, 0, 3))
            .consume(span(0, 10 * MS), no_job());
        history
            .deliver(TTR + 900 * MS, tries_left)
            .ack(4 * S, acked())
    };
    taken(1).expect(&[]);
    taken(2).expect(&[Defect::Late]);
}

#[test]
fn a_second_delivery_must_wait_for_the_end_of_the_lease() {
    let twice = |second: u64, tries_left| {
        let history = HistoryBuilder::new()
            .publish(version_spec(0, 0, 3))
            .deliver(2 * MS, 2);
        history.deliver(second, tries_left).ack(4 * S, acked())
    };
    twice(TTR + 2 * MS, 1).expect(&[]);
    twice(TTR + MS, 1).expect(&[Defect::Doubled]);
    twice(TTR + 2 * MS, 2).expect(&[Defect::Doubled]);
    let forgotten = |from, to| {
        let around = span(from, to);
        twice(TTR + MS, 2).episode(Class::RedisKill, around, Some(around))
    };
    forgotten(0, S).expect(&[]);
    // A write that was acknowledged long before may not be lost.
    forgotten(S, 3 * S).expect(&[Defect::Doubled, Defect::Doubled]);
}

#[test]
fn a_job_is_not_delivered_more_often_than_it_has_tries() {
    let history = HistoryBuilder::new()
        .publish(version_spec(0, 0, 1))
        .deliver(2 * MS, 1);
    history.ack(5 * MS, acked()).expect(&[Defect::Doubled]);
}

#[test]
fn a_job_is_not_delivered_after_its_end() {
    let ended = |history: HistoryBuilder| history.deliver(4 * S, 2).ack(4 * S + 5 * MS, acked());
    let cancelled = HistoryBuilder::new()
        .publish(version_spec(4 * S - 2 * MS, 0, 3))
        .cancel(S);
    ended(cancelled.clone()).expect(&[Defect::AfterItsEnd]);
    let around = span(S, S + MS);
    let forgotten = cancelled.episode(Class::Failover, around, Some(around));
    ended(forgotten).expect(&[]);
    // Concurrent requests may be carried out in any order.
    let at_once = HistoryBuilder::new()
        .publish(version_spec(4 * S - 2 * MS, 0, 3))
        .cancel(4 * S - MS / 2);
    ended(at_once).expect(&[]);
}

#[test]
fn a_job_that_was_not_published_is_foreign() {
    let foreign = |change: fn(&mut Delivery)| {
        let mut got = delivered(2 * MS, 0);
        change(&mut got);
        let history = HistoryBuilder::new()
            .publish(version_spec(0, 0, 1))
            .deliver_as(2 * MS, got);
        history.ack(5 * MS, acked()).expect(&[Defect::Foreign]);
    };
    foreign(|got| got.number = None);
    foreign(|got| got.number = Some(2));
    foreign(|got| got.id = "another".to_owned());
    foreign(|got| got.queue = 4);
}

#[test]
fn a_job_dies_only_of_used_tries() {
    let exhumed = |history: HistoryBuilder| {
        let history = history.respawn(100 * S).deliver(100 * S + MS, 0);
        history.ack(101 * S, acked())
    };
    let used = HistoryBuilder::new()
        .publish(version_spec(0, 0, 1))
        .deliver(2 * MS, 0);
    exhumed(used.clone()).expect(&[]);
    // Reserved in the ms in which it was respawned: the begin of a lease is known only to the ms.
    let at_once = used.respawn(100 * S + 300).deliver(100 * S, 0);
    at_once.ack(101 * S, acked()).expect(&[]);
    let unused = HistoryBuilder::new()
        .publish(version_spec(0, 0, 3))
        .deliver(2 * MS, 2);
    exhumed(unused.clone()).expect(&[Defect::DiedEarly]);
    let taken = unused.consume(span(2 * S + 10 * MS, 3 * S), no_job());
    exhumed(taken.consume(span(5 * S, 6 * S), no_job())).expect(&[]);
    // A dead job is delivered again only after a respawn.
    let used = HistoryBuilder::new()
        .publish(version_spec(0, 0, 1))
        .deliver(2 * MS, 0);
    used.deliver(100 * S + MS, 0)
        .ack(101 * S, acked())
        .expect(&[Defect::Doubled]);
}

#[test]
fn a_job_that_all_replicas_confirmed_is_not_lost_with_a_master() {
    let around = span(0, S);
    let history = |is_replicated| {
        let mut history = HistoryBuilder::new().publish(version_spec(S, 0, 1));
        history.0.is_replicated = is_replicated;
        history.episode(Class::Failover, around, Some(around))
    };
    history(false).expect(&[]);
    history(true).expect(&[Defect::Lost]);
    // Other acknowledged writes may be lost: an ack here.
    let ended = history(true).ack(S - MS, acked()).deliver(S + 2 * MS, 0);
    ended.clone().ack(2 * S, acked()).expect(&[]);
    // Then the job exists again, and must be ended again.
    ended.expect(&[Defect::Lost]);
}

#[test]
fn a_job_that_was_stored_but_not_confirmed_may_be_delivered() {
    let unconfirmed =
        HistoryBuilder::new().publish_with(version_spec(0, 0, 1), RequestOutcome::Failed(504));
    let full = unconfirmed.episode(Class::MemoryFull, span(0, S), None);
    full.expect(&[]);
    full.deliver(2 * MS, 0).ack(5 * MS, acked()).expect(&[]);
}
