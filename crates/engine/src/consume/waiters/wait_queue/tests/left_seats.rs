//! Jobs of seats that were left while a call was in flight.

use super::*;

/// Seats with these claims, and a round for them. The first seat is left before the round ends.
fn first_seat_left(claims: &[(u16, u64)]) -> (TestQueue, Round) {
    let mut tested = TestQueue::new();
    for (number, &(count, ttr_ms)) in claims.iter().enumerate() {
        let seat = Arc::new(Seat::new(Claim::new(count, ttr_ms), true));
        tested.seats.push(Arc::clone(&seat));
        tested.wait_queue.enter(number as u64, seat, false);
    }
    let round = tested.next_round(1).unwrap();
    tested.wait_queue.leave(0);
    assert_eq!(tested.seats[0].leave(), None);
    (tested, round)
}

/// A consumer of several queues leaves the wait queue of a slow server when another queue has a job. If the jobs of the
/// slow server were always released then, its queue would rarely be consumed.
#[test]
fn jobs_for_a_seat_that_was_left_go_to_the_next_with_leases_of_the_same_length() {
    let (mut tested, round) = first_seat_left(&[(3, 3), (1, 4), (2, 3), (1, 3), (1, 3)]);
    assert_eq!(
        tested.seats[2].leave(),
        None,
        "its consumer has left, but it is still in the wait queue"
    );
    assert_eq!(tested.hand_out(round, &[3, 0, 0, 0, 0]), 1);
    assert_eq!(
        tested.at_seat(1),
        Some(vec![]),
        "its lease has another length"
    );
    assert_eq!(tested.at_seat(3), Some(vec![0]));
    assert_eq!(tested.at_seat(4), Some(vec![1]));
}

#[test]
fn jobs_beyond_the_claim_of_one_seat_go_to_the_next() {
    let (mut tested, round) = first_seat_left(&[(3, 3), (2, 3), (5, 3)]);
    assert_eq!(tested.hand_out(round, &[3, 0, 0]), 0);
    assert_eq!(tested.at_seat(1), Some(vec![0, 1]));
    assert_eq!(tested.at_seat(2), Some(vec![2]));
}

/// Found by fault runs (seeds 1 to 3, 5 and 6): the lease of a job had begun before the request that got it.
#[test]
fn jobs_of_a_round_go_to_no_seat_that_arrived_after_it_began() {
    let (mut tested, round) = first_seat_left(&[(1, 1)]);
    tested.enter(1);
    assert_eq!(tested.hand_out(round, &[1]), 1);
    assert_eq!(tested.at_seat(1), None);
}

/// The next round would take the jobs behind the jobs that are on their way back, and the lane would lose its order.
#[test]
fn a_lane_is_not_looked_into_while_jobs_of_a_round_are_given_back_to_it() {
    let (mut tested, round) = first_seat_left(&[(1, 1)]);
    tested.enter(2);
    assert_eq!(tested.hand_out(round, &[1]), 1);
    assert!(tested.next_round(1).is_none());
    assert!(!tested.wait_queue.is_idle(), "it is waited for");
    let of_another_lane = tested.next_round(2).unwrap();
    assert_eq!(of_another_lane.lane, 1);
    tested.hand_out(of_another_lane, &[0]);
    tested.wait_queue.free(0);
    assert_eq!(tested.next_round(2).unwrap().lane, 0);
}
