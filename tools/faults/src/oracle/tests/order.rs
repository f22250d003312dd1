//! First in, first out, in a queue with one lane.

use super::*;

/// Jobs 1, 2, … of queue 3, published 10 ms apart, then delivered in this order, 1 ms apart, to a consumer of only this
/// queue.
fn drained(order: &[u64]) -> HistoryBuilder {
    let mut history = HistoryBuilder::new();
    history.0.bound = 400 * MS;
    for number in 1..=order.len() as u64 {
        let version = VersionSpec {
            number,
            ..version_spec(0, 0, 1)
        };
        history = history.request(number * 10 * MS, publish_of(&[version]), stored(&[number]));
    }
    for (place, number) in (0..).zip(order) {
        let at = 300 * MS + place * MS;
        let got = delivery_of(*number, number * 10 * MS, at, 0);
        history = history.consume(span(at, at + MS), RequestOutcome::Delivered(vec![got]));
        history = history.request(at + MS, ack_of(*number), acked());
    }
    history
}

#[test]
fn jobs_come_in_the_order_in_which_they_were_published() {
    drained(&[1, 2, 3, 4]).expect(&[]);
    drained(&[4, 3, 2, 1]).expect(&[Defect::OutOfOrder; 3]);
    drained(&[1, 3, 2, 4]).expect(&[Defect::OutOfOrder]);
}

#[test]
fn possible_reordering_is_an_excuse() {
    let reversed = || drained(&[2, 1]);
    reversed().expect(&[Defect::OutOfOrder]);
    // There is no order between lanes.
    let laned = |queue| {
        let mut history = reversed();
        history.0.laned.push(queue);
        history
    };
    laned(3).expect(&[]);
    laned(4).expect(&[Defect::OutOfOrder]);
    // Nor between two pools.
    let moved = |from, to| reversed().episode(Class::PoolMove, span(from, to), None);
    moved(0, MS).expect(&[]);
    moved(S, 2 * S).expect(&[Defect::OutOfOrder]);
    let killed = |from, to| reversed().episode(Class::ApiKill, span(from, to), None);
    killed(100 * MS, 200 * MS).expect(&[]);
    killed(S, 2 * S).expect(&[Defect::OutOfOrder]);
    // The first was reserved for a consumer whose timeout had passed, and was released.
    let nothing = RequestOutcome::Delivered(Vec::new());
    let gone = |to| reversed().consume(span(10 * MS, to), nothing.clone());
    gone(301 * MS).expect(&[]);
    gone(150 * MS).expect(&[]);
    gone(50 * MS).expect(&[Defect::OutOfOrder]);
    // Concurrent publishes have no order.
    let mut at_once = reversed();
    at_once.0.operations[1].span.to += 10 * MS;
    at_once.expect(&[]);
}

#[test]
fn a_bulk_keeps_its_order_and_delayed_jobs_are_ordered_by_due_time() {
    let jobs = |delays: [u64; 2]| {
        let job = |(number, delay)| VersionSpec {
            number,
            ..version_spec(delay, 0, 1)
        };
        (1..).zip(delays).map(job).collect::<Vec<VersionSpec>>()
    };
    let history = |delays, order: [u64; 2]| {
        let request = publish_of(&jobs(delays));
        let mut history = HistoryBuilder::new().request(0, request, stored(&[1, 2]));
        history.0.bound = 400 * MS;
        for (place, number) in (0..).zip(order) {
            let at = S + 101 * MS + place * MS;
            let got = delivery_of(number, 0, at, 0);
            history = history.consume(span(at, at + MS), RequestOutcome::Delivered(vec![got]));
            history = history.request(at + MS, ack_of(number), acked());
        }
        history.0.busy.push(span(0, S));
        history
    };
    history([0, 0], [1, 2]).expect(&[]);
    history([0, 0], [2, 1]).expect(&[Defect::OutOfOrder]);
    history([S, S + 100 * MS], [1, 2]).expect(&[]);
    history([S, S + 100 * MS], [2, 1]).expect(&[Defect::OutOfOrder]);
    history([S, S], [2, 1]).expect(&[]);
    history([0, S], [2, 1]).expect(&[Defect::OutOfOrder]);
}
