//! Priorities.

use super::*;

/// Jobs of these priorities come in this order, one in 10 ms. All were ready before, and no two have a group.
fn come(priorities: &[u8]) -> NativeHistoryBuilder {
    let mut history = held(None, None);
    for (number, priority) in (1..).zip(priorities) {
        let line = Of {
            priority: *priority,
            group: None,
        };
        history = history.publish_of(0, number, line);
    }
    for (number, place) in (1..).zip(0..priorities.len() as u64) {
        history = history.work(10 * MS * (place + 1), number);
    }
    history
}

#[test]
fn between_two_jobs_of_lower_priorities_seven_others_come() {
    let rounds = |first: usize| {
        let mut priorities = vec![4; first];
        priorities.push(0);
        priorities.extend([4; 7]);
        priorities.push(1);
        priorities.extend([4; 7]);
        priorities.extend([1, 0]);
        priorities
    };
    come(&rounds(7)).expect(&[]);
    come(&rounds(2)).expect(&[]);
    let mut early = rounds(7);
    early.swap(14, 15);
    come(&early).expect(&[Defect::OutOfOrder]);
    // When no job of the priority waits, others follow one another.
    come(&[4, 4, 0, 4, 0, 0, 0]).expect(&[]);
}

#[test]
fn a_priority_waits_for_four_rounds_at_most() {
    let waits_for = |jobs: usize| {
        let mut priorities = vec![4; jobs];
        priorities.push(0);
        come(&priorities)
    };
    waits_for(32).expect(&[]);
    waits_for(33).expect(&[Defect::Starved]);
    let mut cut = waits_for(33);
    cut.builder = cut
        .builder
        .episode(Class::NetCut, span(20 * MS, 21 * MS), None);
    cut.expect(&[]);
}
