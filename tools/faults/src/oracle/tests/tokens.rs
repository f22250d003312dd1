//! Rate limits and revocations.

use super::*;
use crate::history::TokenLimit;

/// Publishes with token 1 at these times, each rejected or not. The limit is two publishes per
/// second.
fn publishes_with_limit(publishes: &[(u64, bool)]) -> HistoryBuilder {
    let mut history = HistoryBuilder::new();
    history.0.limits.push(TokenLimit {
        token: 1,
        publishes: 2,
        consumes: 0,
        window: S,
    });
    for (number, (at, is_refused)) in (1..).zip(publishes) {
        let request = publish_of(&[VersionSpec {
            number,
            ..version_spec(0, 0, 1)
        }]);
        let outcome = match is_refused {
            true => RequestOutcome::Refused(429),
            false => stored(&[number]),
        };
        history = history.request(*at, request, outcome);
        history.0.operations.last_mut().unwrap().token = 1;
        if !is_refused {
            history = history.request(at + MS, cancel_of(number), cancelled(number));
        }
    }
    history
}

#[test]
fn a_span_of_one_window_overlaps_at_most_two_windows() {
    let good = [
        (900 * MS, false),
        (990 * MS, false),
        (S, false),
        (1010 * MS, false),
    ];
    publishes_with_limit(&good).expect(&[]);
    let mut bad = good.to_vec();
    bad.push((1500 * MS, false));
    publishes_with_limit(&bad).expect(&[Defect::OverLimit]);
    *bad.last_mut().unwrap() = (2 * S, false);
    publishes_with_limit(&bad).expect(&[]);
}

#[test]
fn each_api_counts_by_itself_until_5_s_after_redis_could_not() {
    let over = [0, 10, 20, 30, 40].map(|ms| (10 * S + ms * MS, false));
    let after = |end| publishes_with_limit(&over).episode(Class::LoginRefused, span(S, end), None);
    after(5500 * MS).expect(&[]);
    after(4900 * MS).expect(&[Defect::OverLimit]);
}

#[test]
fn requests_within_the_limit_are_not_rejected() {
    publishes_with_limit(&[(0, true)]).expect(&[Defect::Refused]);
    publishes_with_limit(&[(0, false), (10 * MS, true)]).expect(&[Defect::Refused]);
    publishes_with_limit(&[(0, false), (10 * MS, false), (20 * MS, true)]).expect(&[]);
    publishes_with_limit(&[(0, false), (10 * MS, false), (1500 * MS, true)])
        .expect(&[Defect::Refused]);
    // The window lasts longer if the clock of Redis is set back.
    let back = publishes_with_limit(&[(0, false), (10 * MS, false), (1500 * MS, true)]);
    back.episode(Class::RedisClock, span(S, 3 * S), None)
        .expect(&[]);
}

#[test]
fn a_request_that_a_paused_redis_executes_late_counts_late() {
    let refused = || publishes_with_limit(&[(0, false), (6 * S, true)]);
    refused().expect(&[Defect::Refused]);
    let given_up = |history: HistoryBuilder| {
        let publish = publish_of(&[VersionSpec {
            number: 9,
            ..version_spec(0, 0, 1)
        }]);
        let mut history = history.request(
            2 * S,
            publish,
            RequestOutcome::Unknown("hung up".to_owned()),
        );
        history.0.operations.last_mut().unwrap().token = 1;
        history
    };
    given_up(refused()).expect(&[Defect::Refused]);
    let pause = span(S, 6 * S);
    let paused = refused().episode(Class::RedisPause, pause, None);
    given_up(given_up(paused)).expect(&[]);
}

#[test]
fn a_revoked_token_is_rejected() {
    let revoked = |delivered_at: u64| {
        let request = ClientRequest::Revoke { token: 1 };
        let history = HistoryBuilder::new().publish(version_spec(4 * S, 0, 1));
        let history = history.request(delivered_at - 3 * S, request, RequestOutcome::Deleted);
        let mut history = history.deliver(delivered_at, 0);
        history.0.operations.last_mut().unwrap().token = 1;
        history.ack(delivered_at + 5 * MS, acked())
    };
    revoked(4 * S + MS).expect(&[Defect::Revoked]);
    let mut in_time = revoked(4 * S + MS);
    for operation in &mut in_time.0.operations {
        if matches!(operation.request, ClientRequest::Revoke { .. }) {
            operation.span = span(2500 * MS, 2501 * MS);
        }
    }
    in_time.expect(&[]);
}
