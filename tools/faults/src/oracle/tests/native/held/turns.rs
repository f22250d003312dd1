//! Turns of groups.

use super::*;

/// Jobs 1 to 3 of group 1 and job 4 of this line wait. Jobs 1 and 2 come at 10 ms and 30 ms.
fn rivals_of(line: Of) -> NativeHistoryBuilder {
    served_twice(held(None, None), line)
}

fn served_twice(mut history: NativeHistoryBuilder, line: Of) -> NativeHistoryBuilder {
    for number in 1..=3 {
        history = history.publish_of(0, number, of(1, 1));
    }
    history
        .publish_of(5 * MS, 4, line)
        .work(10 * MS, 1)
        .work(30 * MS, 2)
}

#[test]
fn a_group_is_not_served_twice_while_another_one_waits() {
    let fourth_at = |at, line| rivals_of(line).work(at, 4).work(60 * MS, 3);
    fourth_at(20 * MS, of(1, 2)).expect(&[]);
    // In the ms in which the second one came, it may have come before.
    fourth_at(30 * MS, of(1, 2)).expect(&[]);
    fourth_at(32 * MS, of(1, 2)).expect(&[Defect::TurnMissed]);
    let no_group = Of {
        priority: 1,
        group: None,
    };
    fourth_at(32 * MS, no_group).expect(&[Defect::TurnMissed]);
    // A job of the same line, or of a lower priority, has no turn before.
    fourth_at(32 * MS, of(1, 1)).expect(&[]);
    fourth_at(32 * MS, of(0, 2)).expect(&[]);
}

#[test]
fn a_turn_counts_only_while_a_job_waits_for_it() {
    let published_at = |at| {
        held(None, None)
            .publish_of(0, 1, of(1, 1))
            .publish_of(0, 2, of(1, 1))
            .publish_of(at, 4, of(1, 2))
            .work(10 * MS, 1)
            .work(30 * MS, 2)
            .work(40 * MS, 4)
    };
    published_at(9 * MS).expect(&[Defect::TurnMissed]);
    published_at(10 * MS).expect(&[]);
    // Another job of the line may have had the turn.
    let served = published_at(9 * MS).publish_of(0, 5, of(1, 2));
    served.work(20 * MS, 5).expect(&[]);
}

#[test]
fn a_full_group_has_no_turn() {
    let limited = |ended_at| {
        let history = held(Some(1), None).publish_of(0, 5, of(0, 2)).take(MS, 5);
        let history = history.ack(ended_at, 5, 1);
        served_twice(history, of(1, 2)).work(40 * MS, 4)
    };
    let with_third = |history: NativeHistoryBuilder| history.work(60 * MS, 3);
    with_third(limited(8 * MS)).expect(&[Defect::TurnMissed]);
    with_third(limited(9 * MS)).expect(&[]);
    with_third(limited(20 * MS)).expect(&[]);
}

#[test]
fn turns_are_not_judged_where_leases_may_be_unobserved() {
    let missed = rivals_of(of(1, 2)).work(40 * MS, 4).work(60 * MS, 3);
    missed.expect(&[Defect::TurnMissed]);
    let mut cut = missed.clone();
    cut.builder = cut
        .builder
        .episode(Class::NetCut, span(20 * MS, 21 * MS), None);
    cut.expect(&[]);
    // A job of the other line may have been leased for a consumer that left, and released.
    let left = |to| {
        let request = ClientRequest::Reserve {
            queues: vec![QUEUE],
            lease: Some(LEASE),
            max_jobs: 1,
        };
        let nothing = RequestOutcome::Delivered(Vec::new());
        missed.clone().operation(span(0, to), request, nothing)
    };
    left(20 * MS).expect(&[]);
    left(10 * S).expect(&[Defect::TurnMissed]);
}
