//! Limits of leased jobs of a group, and rates.

use super::*;

/// Two jobs of a group of which one may be leased; a worker has got the first one.
fn one_is_leased(second: Of) -> NativeHistoryBuilder {
    held(Some(1), None)
        .publish_of(0, 1, of(0, 3))
        .publish_of(0, 2, second)
        .take(2 * MS, 1)
}

fn acked(history: NativeHistoryBuilder, at: u64) -> NativeHistoryBuilder {
    history.job("1").ack(at, 1, 1)
}

#[test]
fn a_group_has_no_more_leased_jobs_than_it_may() {
    let second_at = |at| acked(one_is_leased(of(0, 3)), S).work(at, 2);
    second_at(S).expect(&[]);
    second_at(S - 2 * MS).expect(&[Defect::OverMaxRunning]);
    // The limit is of a group, whatever its priorities.
    let of_other = |line| acked(one_is_leased(line), S).work(S - 2 * MS, 2);
    of_other(of(4, 3)).expect(&[Defect::OverMaxRunning]);
    of_other(of(0, 2)).expect(&[]);
    let no_group = Of {
        priority: 0,
        group: None,
    };
    of_other(no_group).expect(&[]);
}

#[test]
fn a_lease_counts_until_its_end() {
    // Job 1 comes again after its lease.
    let again = |history: NativeHistoryBuilder| {
        let history = history.job("1").deliver(7 * S, 1, 2);
        history.ack(7 * S + MS, 1, 2)
    };
    let expires = LEASE + 3 * MS;
    let second_at = |at| again(one_is_leased(of(0, 3)).work(at, 2));
    second_at(expires).expect(&[]);
    second_at(expires - 2 * MS).expect(&[Defect::OverMaxRunning]);
    let until = extended_to(T0 + 5 * S);
    let touched = one_is_leased(of(0, 3)).settle(S, (1, 1), SettleAction::Touch(4 * S), until);
    let second_at = |at| again(touched.clone().work(at, 2));
    second_at(5 * S).expect(&[]);
    second_at(5 * S - 2 * MS).expect(&[Defect::OverMaxRunning]);
}

#[test]
fn a_settle_without_an_answer_may_have_ended_a_lease() {
    let unclear = RequestOutcome::Unknown("hung up".to_owned());
    let settled = |history: NativeHistoryBuilder, at| {
        let history = history.job("1");
        history.settle_with(at, (1, 1), SettleAction::Ack, unclear.clone())
    };
    settled(one_is_leased(of(0, 3)), S).work(S, 2).expect(&[]);
    let later = settled(one_is_leased(of(0, 3)), S + 5 * MS).work(S, 2);
    later.expect(&[Defect::OverMaxRunning]);
}

#[test]
fn a_limit_is_not_judged_where_it_may_be_unknown_or_lost() {
    let over = acked(one_is_leased(of(0, 3)), S).work(S - 5 * MS, 2);
    over.expect(&[Defect::OverMaxRunning]);
    over.clone().failover(0, 10 * MS).expect(&[]);
    over.clone()
        .failover(S + MS, 2 * S)
        .expect(&[Defect::OverMaxRunning]);
    let with = |classes: &[Class]| {
        let mut history = over.clone();
        for class in classes {
            history.builder = history.builder.episode(*class, span(0, 500 * MS), None);
        }
        history
    };
    with(&[Class::RedisClock]).expect(&[]);
    with(&[Class::PoolMove]).expect(&[]);
    with(&[Class::StartWhileLoading]).expect(&[]);
    // An API that starts while Redis is available knows the limit.
    with(&[Class::Upgrade]).expect(&[Defect::OverMaxRunning]);
    with(&[Class::Upgrade, Class::RedisKill]).expect(&[]);
    with(&[Class::RedisKill]).expect(&[Defect::OverMaxRunning]);
}

/// Jobs are delivered at these times, two at once and two more in a second.
fn delivered_at(times: &[u64]) -> NativeHistoryBuilder {
    let rate = DeliveryRate { jobs: 2, per: S };
    let mut history = held(None, Some(rate));
    for (number, at) in (1..).zip(times) {
        history = history.publish_of(0, number, of(0, 1)).work(*at, number);
    }
    history
}

#[test]
fn a_rate_is_not_exceeded_in_any_span() {
    // A consumer has asked for 100 ms.
    let third = 600 * MS;
    delivered_at(&[200 * MS, 200 * MS, third]).expect(&[]);
    delivered_at(&[200 * MS, 200 * MS, third - 2 * MS]).expect(&[Defect::OverRate]);
    // The unit of a delivery may have been taken as soon as it was asked for.
    let apart = [200 * MS, 650 * MS, 1100 * MS, 1150 * MS];
    delivered_at(&apart).expect(&[]);
    let close = [200 * MS, 650 * MS, 700 * MS, 750 * MS, 800 * MS];
    delivered_at(&close).expect(&[Defect::OverRate]);
}

#[test]
fn a_rate_is_not_judged_where_its_units_may_be_lost() {
    let over = delivered_at(&[2 * S, 2 * S, 2 * S]);
    over.expect(&[Defect::OverRate]);
    over.clone().failover(2 * S, 3 * S).expect(&[]);
    over.failover(2 * S + 2 * MS, 3 * S)
        .expect(&[Defect::OverRate]);
}

#[test]
fn a_job_that_waits_on_purpose_is_not_late() {
    let late = |history: NativeHistoryBuilder| history.publish_of(0, 1, of(0, 1)).work(9 * S, 1);
    late(NativeHistoryBuilder::new()).expect(&[Defect::Late]);
    late(held(Some(1), None)).expect(&[]);
    let verdict = judge(&late(held(Some(1), None)).builder.0);
    assert_eq!(verdict.lateness, []);
}
