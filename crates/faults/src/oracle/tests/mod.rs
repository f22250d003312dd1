//! Bad histories: each kind of defect is found, and what is allowed is not.

mod clock;
mod ends;
mod order;
mod queues;
mod requests;
mod times;
mod tokens;

use super::{Defect, judge};
use crate::fault::Class;
use crate::history::{
    Delivered, Episode, History, Moment, Operation, Outcome, Request, Span, Terms,
};

const MS: u64 = 1000;
const S: u64 = 1000 * MS;
const TTR: u64 = 2 * S;
/// When histories of these tests begin.
const T0: Moment = 1_800_000_000 * S;

/// A history about job 1 of queue 3, whose times count from its beginning.
#[derive(Debug, Clone)]
struct Tale(History);

fn span(from: u64, to: u64) -> Span {
    Span {
        from: T0 + from,
        to: T0 + to,
    }
}

fn terms(delay: u64, ttl: u64, tries: u64) -> Terms {
    Terms {
        number: 1,
        delay,
        ttl,
        tries,
        bytes: 50,
        ..Terms::default()
    }
}

impl Tale {
    /// A consumer asks all the time, in vain.
    fn new() -> Self {
        let tale = Self(History {
            bound: S,
            began: T0,
            ended: T0 + 110 * S,
            ..History::default()
        });
        tale.consume(span(0, 110 * S), Outcome::Delivered(Vec::new()))
    }

    fn operation(mut self, at: Span, request: Request, outcome: Outcome) -> Self {
        self.0.operations.push(Operation {
            token: 0,
            is_direct: false,
            span: at,
            request,
            outcome,
        });
        self
    }

    fn publish_with(self, terms: Terms, outcome: Outcome) -> Self {
        let request = Request::Publish {
            queue: 3,
            jobs: vec![terms],
        };
        self.operation(span(0, 5 * MS), request, outcome)
    }

    /// Published well, stored 1 ms after the beginning.
    fn publish(self, terms: Terms) -> Self {
        self.publish_with(terms, Outcome::Published(vec!["id".to_owned()]))
    }

    fn consume(self, at: Span, outcome: Outcome) -> Self {
        self.operation(
            at,
            Request::Consume {
                queues: vec![3],
                ttr: TTR,
                count: 1,
            },
            outcome,
        )
    }

    /// Delivered at this time with so many tries left, by a consume that waited for 100 ms.
    fn deliver(self, at: u64, tries_left: u64) -> Self {
        self.deliver_as(at, delivered(at, tries_left))
    }

    fn deliver_as(self, at: u64, got: Delivered) -> Self {
        let from = at.saturating_sub(100 * MS);
        self.consume(span(from, at + MS), Outcome::Delivered(vec![got]))
    }

    fn ack(self, at: u64, outcome: Outcome) -> Self {
        self.operation(span(at, at + MS), Request::Ack { job: 1 }, outcome)
    }

    /// Answered after 1 ms.
    fn ask(self, at: u64, request: Request, outcome: Outcome) -> Self {
        self.operation(span(at, at + MS), request, outcome)
    }

    /// A dead job of the queue becomes ready.
    fn respawn(self, at: u64) -> Self {
        let request = Request::Respawn {
            queue: 3,
            limit: 10,
        };
        self.ask(at, request, Outcome::Respawned(1))
    }

    fn cancel(self, at: u64) -> Self {
        self.operation(
            span(at, at + MS),
            Request::Cancel { job: 1 },
            Outcome::Deleted,
        )
    }

    fn episode(mut self, class: Class, at: Span, may_lose: Option<Span>) -> Self {
        let what = class.name();
        self.0.episodes.push(Episode {
            class,
            what,
            span: at,
            excuses_until: at.to,
            may_lose,
            spared: Vec::new(),
            spared_from: 0,
        });
        self
    }

    #[track_caller]
    fn expect(&self, expected: &[Defect]) {
        let verdict = judge(&self.0);
        let found: Vec<Defect> = verdict.findings.iter().map(|it| it.defect).collect();
        assert_eq!(found, expected, "{verdict:#?}");
    }
}

/// Reserved at this time.
fn delivered(at: u64, tries_left: u64) -> Delivered {
    Delivered {
        number: Some(1),
        id: "id".to_owned(),
        queue: 3,
        tries_left,
        created: T0 + MS,
        elapsed: at - MS,
    }
}

fn left() -> Outcome {
    Outcome::Unknown("hung up".to_owned())
}

#[test]
fn a_good_life_is_fine() {
    let tale = Tale::new()
        .publish(terms(S, 0, 3))
        .deliver(S + 3 * MS, 2)
        .deliver(3 * S + 5 * MS, 1);
    tale.ack(3 * S + 9 * MS, Outcome::Deleted).expect(&[]);
}

#[test]
fn a_job_that_never_comes_is_lost() {
    let tale = Tale::new().publish(terms(S, 0, 1));
    tale.expect(&[Defect::Lost]);
    tale.clone().cancel(MS * 10).expect(&[]);
    // An ack that nobody answered may have been carried out; one that was not sent was not.
    tale.clone()
        .deliver(S + 2 * MS, 0)
        .ack(2 * S, left())
        .expect(&[]);
    tale.deliver(S + 2 * MS, 0)
        .ack(2 * S, Outcome::NotSent)
        .expect(&[Defect::Lost]);
}

#[test]
fn a_job_whose_publish_is_open_may_exist_or_not() {
    let tale = Tale::new().publish_with(terms(S, 0, 1), left());
    tale.expect(&[]);
    tale.deliver(S + 2 * MS, 0)
        .ack(S + 5 * MS, Outcome::Deleted)
        .expect(&[]);
}

#[test]
fn a_job_that_was_refused_must_not_come() {
    let came = |outcome| {
        let tale = Tale::new()
            .publish_with(terms(0, 0, 1), outcome)
            .deliver(2 * MS, 0);
        tale.ack(5 * MS, Outcome::Deleted)
    };
    came(Outcome::NotSent).expect(&[Defect::Foreign]);
    came(Outcome::Refused(400)).expect(&[Defect::Foreign]);
    let cut = came(Outcome::Failed(500)).episode(Class::NetCut, span(0, S), None);
    cut.expect(&[]);
    // A failure while memory is full is a refusal, too; unless there may be another reason for it.
    let full = came(Outcome::Failed(500)).episode(Class::MemoryFull, span(0, S), None);
    full.expect(&[Defect::Foreign]);
    full.episode(Class::NetCut, span(0, S), None).expect(&[]);
}

#[test]
fn a_job_may_disappear_at_its_time_only() {
    Tale::new().publish(terms(S, 1500 * MS, 1)).expect(&[]);
    // It had been there for 5 s in which consumers waited for it.
    Tale::new()
        .publish(terms(S, 6 * S, 1))
        .expect(&[Defect::Lost]);
    let stopped = Tale::new().publish(terms(S, 6 * S, 1));
    stopped
        .episode(Class::RedisPause, span(S, 6 * S), None)
        .expect(&[]);
}

#[test]
fn what_redis_may_lose_is_counted_and_excused() {
    let around = span(0, S);
    let tale = Tale::new().publish(terms(S, 0, 1));
    let tale = tale.episode(Class::RedisKill, around, Some(around));
    tale.expect(&[]);
    assert_eq!(judge(&tale.0).counts.lost_with_redis, 1);
    let tale = Tale::new().publish(terms(S, 0, 1));
    let later = span(S, 2 * S);
    tale.episode(Class::RedisKill, later, Some(later))
        .expect(&[Defect::Lost]);
}

#[test]
fn a_job_before_its_time_is_early() {
    let tale = Tale::new().publish(terms(S, 0, 1)).deliver(S, 0);
    tale.ack(2 * S, Outcome::Deleted).expect(&[Defect::Early]);
    let tale = Tale::new().publish(terms(S, 0, 1)).deliver(S + MS, 0);
    tale.ack(2 * S, Outcome::Deleted).expect(&[]);
}

#[test]
fn a_job_after_its_window_is_late() {
    let late = |at: u64| {
        let tale = Tale::new().publish(terms(S, 0, 2)).deliver(at, 1);
        tale.ack(at + 5 * MS, Outcome::Deleted)
    };
    late(2 * S - MS).expect(&[]);
    late(2 * S + MS).expect(&[Defect::Late]);
    // Time in which something was wrong does not count: due at 1 s, 1 s is the bound, at 5 s it came.
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
    // A try is missing, and one consume can have taken it, for the length of a lease.
    let taken = |tries_left| {
        let tale = Tale::new()
            .publish(terms(0, 0, 3))
            .consume(span(0, 10 * MS), left());
        tale.deliver(TTR + 900 * MS, tries_left)
            .ack(4 * S, Outcome::Deleted)
    };
    taken(1).expect(&[]);
    taken(2).expect(&[Defect::Late]);
}

#[test]
fn a_second_delivery_must_wait_for_the_end_of_the_lease() {
    let twice = |second: u64, tries_left| {
        let tale = Tale::new().publish(terms(0, 0, 3)).deliver(2 * MS, 2);
        tale.deliver(second, tries_left)
            .ack(4 * S, Outcome::Deleted)
    };
    twice(TTR + 2 * MS, 1).expect(&[]);
    twice(TTR + MS, 1).expect(&[Defect::Doubled]);
    twice(TTR + 2 * MS, 2).expect(&[Defect::Doubled]);
    let forgotten = |from, to| {
        let around = span(from, to);
        twice(TTR + MS, 2).episode(Class::RedisKill, around, Some(around))
    };
    forgotten(0, S).expect(&[]);
    // What was acknowledged long before is not forgotten.
    forgotten(S, 3 * S).expect(&[Defect::Doubled, Defect::Doubled]);
}

#[test]
fn a_job_cannot_come_more_often_than_it_has_tries() {
    let tale = Tale::new().publish(terms(0, 0, 1)).deliver(2 * MS, 1);
    tale.ack(5 * MS, Outcome::Deleted)
        .expect(&[Defect::Doubled]);
}

#[test]
fn a_job_must_not_come_after_its_end() {
    let ended = |tale: Tale| tale.deliver(4 * S, 2).ack(4 * S + 5 * MS, Outcome::Deleted);
    let cancelled = Tale::new().publish(terms(4 * S - 2 * MS, 0, 3)).cancel(S);
    ended(cancelled.clone()).expect(&[Defect::AfterItsEnd]);
    let around = span(S, S + MS);
    let forgotten = cancelled.episode(Class::Failover, around, Some(around));
    ended(forgotten).expect(&[]);
    // Two requests at the same time may be carried out in any order.
    let at_once = Tale::new()
        .publish(terms(4 * S - 2 * MS, 0, 3))
        .cancel(4 * S - MS / 2);
    ended(at_once).expect(&[]);
}

#[test]
fn what_nobody_published_is_foreign() {
    let foreign = |change: fn(&mut Delivered)| {
        let mut got = delivered(2 * MS, 0);
        change(&mut got);
        let tale = Tale::new().publish(terms(0, 0, 1)).deliver_as(2 * MS, got);
        tale.ack(5 * MS, Outcome::Deleted)
            .expect(&[Defect::Foreign]);
    };
    foreign(|got| got.number = None);
    foreign(|got| got.number = Some(2));
    foreign(|got| got.id = "another".to_owned());
    foreign(|got| got.queue = 4);
}

#[test]
fn a_job_dies_of_used_tries_only() {
    let exhumed = |tale: Tale| {
        let tale = tale.respawn(100 * S).deliver(100 * S + MS, 0);
        tale.ack(101 * S, Outcome::Deleted)
    };
    let used = Tale::new().publish(terms(0, 0, 1)).deliver(2 * MS, 0);
    exhumed(used.clone()).expect(&[]);
    // Taken in the ms in which it was respawned: of its lease only the ms is known.
    let at_once = used.respawn(100 * S + 300).deliver(100 * S, 0);
    at_once.ack(101 * S, Outcome::Deleted).expect(&[]);
    let unused = Tale::new().publish(terms(0, 0, 3)).deliver(2 * MS, 2);
    exhumed(unused.clone()).expect(&[Defect::DiedEarly]);
    let taken = unused.consume(span(2 * S + 10 * MS, 3 * S), left());
    exhumed(taken.consume(span(5 * S, 6 * S), left())).expect(&[]);
    // What is dead comes again when it is respawned, and not by itself.
    let used = Tale::new().publish(terms(0, 0, 1)).deliver(2 * MS, 0);
    used.deliver(100 * S + MS, 0)
        .ack(101 * S, Outcome::Deleted)
        .expect(&[Defect::Doubled]);
}

#[test]
fn what_replicas_were_waited_for_is_not_lost_with_a_master() {
    let around = span(0, S);
    let tale = |is_replicated| {
        let mut tale = Tale::new().publish(terms(S, 0, 1));
        tale.0.is_replicated = is_replicated;
        tale.episode(Class::Failover, around, Some(around))
    };
    tale(false).expect(&[]);
    tale(true).expect(&[Defect::Lost]);
    // What else was acknowledged may be lost all the same: an ack here.
    let acked = tale(true)
        .ack(S - MS, Outcome::Deleted)
        .deliver(S + 2 * MS, 0);
    acked.clone().ack(2 * S, Outcome::Deleted).expect(&[]);
    // Then it is there again, and must be ended again.
    acked.expect(&[Defect::Lost]);
}

#[test]
fn what_was_stored_and_not_confirmed_may_come() {
    let unconfirmed = Tale::new().publish_with(terms(0, 0, 1), Outcome::Failed(504));
    let full = unconfirmed.episode(Class::MemoryFull, span(0, S), None);
    full.expect(&[]);
    full.deliver(2 * MS, 0)
        .ack(5 * MS, Outcome::Deleted)
        .expect(&[]);
}
