//! Rate limits and revocations.

use super::*;
use crate::history::RateLimit;

/// Publishes with token 1 at these times, each refused or not. It may publish twice a second.
fn limited(publishes: &[(u64, bool)]) -> Tale {
    let mut tale = Tale::new();
    tale.0.limits.push(RateLimit {
        token: 1,
        publishes: 2,
        consumes: 0,
        window: S,
    });
    for (number, (at, is_refused)) in (1..).zip(publishes) {
        let request = Request::Publish {
            queue: 3,
            jobs: vec![Terms {
                number,
                ..terms(0, 0, 1)
            }],
        };
        let outcome = match is_refused {
            true => Outcome::Refused(429),
            false => Outcome::Published(vec![number.to_string()]),
        };
        tale = tale.ask(*at, request, outcome);
        tale.0.operations.last_mut().unwrap().token = 1;
        if !is_refused {
            let end = Request::Cancel { job: number };
            tale = tale.ask(at + MS, end, Outcome::Deleted);
        }
    }
    tale
}

#[test]
fn two_windows_may_touch_and_no_more() {
    let good = [
        (900 * MS, false),
        (990 * MS, false),
        (S, false),
        (1010 * MS, false),
    ];
    limited(&good).expect(&[]);
    let mut bad = good.to_vec();
    bad.push((1500 * MS, false));
    limited(&bad).expect(&[Defect::OverLimit]);
    *bad.last_mut().unwrap() = (2 * S, false);
    limited(&bad).expect(&[]);
}

#[test]
fn each_api_counts_by_itself_until_5_s_after_redis_could_not() {
    let over = [0, 10, 20, 30, 40].map(|ms| (10 * S + ms * MS, false));
    let after = |end| limited(&over).episode(Class::LoginRefused, span(S, end), None);
    after(5500 * MS).expect(&[]);
    after(4900 * MS).expect(&[Defect::OverLimit]);
}

#[test]
fn what_is_within_a_limit_is_not_refused() {
    limited(&[(0, true)]).expect(&[Defect::Refused]);
    limited(&[(0, false), (10 * MS, true)]).expect(&[Defect::Refused]);
    limited(&[(0, false), (10 * MS, false), (20 * MS, true)]).expect(&[]);
    limited(&[(0, false), (10 * MS, false), (1500 * MS, true)]).expect(&[Defect::Refused]);
    // It lasts longer while the clock of Redis is set back.
    let back = limited(&[(0, false), (10 * MS, false), (1500 * MS, true)]);
    back.episode(Class::RedisClock, span(S, 3 * S), None)
        .expect(&[]);
}

#[test]
fn a_request_that_a_paused_redis_executed_later_took_its_unit_then() {
    let refused = || limited(&[(0, false), (6 * S, true)]);
    refused().expect(&[Defect::Refused]);
    let given_up = |tale: Tale| {
        let publish = Request::Publish {
            queue: 3,
            jobs: vec![Terms {
                number: 9,
                ..terms(0, 0, 1)
            }],
        };
        let mut tale = tale.ask(2 * S, publish, Outcome::Unknown("hung up".to_owned()));
        tale.0.operations.last_mut().unwrap().token = 1;
        tale
    };
    given_up(refused()).expect(&[Defect::Refused]);
    let pause = span(S, 6 * S);
    let paused = refused().episode(Class::RedisPause, pause, None);
    given_up(given_up(paused)).expect(&[]);
}

#[test]
fn a_revoked_token_opens_nothing() {
    let revoked = |delivered_at: u64| {
        let request = Request::Revoke { token: 1 };
        let tale = Tale::new().publish(terms(4 * S, 0, 1));
        let tale = tale.ask(delivered_at - 3 * S, request, Outcome::Deleted);
        let mut tale = tale.deliver(delivered_at, 0);
        tale.0.operations.last_mut().unwrap().token = 1;
        tale.ack(delivered_at + 5 * MS, Outcome::Deleted)
    };
    revoked(4 * S + MS).expect(&[Defect::Revoked]);
    let mut in_time = revoked(4 * S + MS);
    for operation in &mut in_time.0.operations {
        if matches!(operation.request, Request::Revoke { .. }) {
            operation.span = span(2500 * MS, 2501 * MS);
        }
    }
    in_time.expect(&[]);
}
