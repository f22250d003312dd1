//! Consumers that arrive while the process is registered, and doorbells.

use super::*;

/// A wait queue whose first seat has found the lane empty, so that the process is registered.
fn registered() -> TestQueue {
    let mut tested = TestQueue::new();
    tested.registers = true;
    tested.enter(1);
    let round = tested.next_round(1).unwrap();
    tested.hand_out(round, &[0]);
    assert!(tested.next_round(1).is_none());
    tested
}

#[test]
fn a_consumer_that_waits_needs_no_round_while_the_process_is_registered() {
    let mut tested = registered();
    assert!(!tested.enter(1), "no serve loop is started");
    assert_eq!(tested.at_seat(1), Some(vec![]), "its first round is over");
    assert!(tested.next_round(1).is_none());

    assert!(tested.wait_queue.doorbell(Some(0)));
    let round = tested.next_round(1).unwrap();
    assert_eq!(TestQueue::counts(&round), [1, 1]);
    tested.hand_out(round, &[1, 0]);
    assert!(
        !tested.enter(1),
        "the round has registered the process again"
    );
    assert_eq!(tested.at_seat(2), Some(vec![]));
}

#[test]
fn the_only_consumer_comes_back_without_a_round_after_the_last_job() {
    let mut tested = registered();
    tested.wait_queue.doorbell(Some(0));
    let round = tested.next_round(1).unwrap();
    tested.hand_out(round, &[1]);
    assert!(tested.next_round(1).is_none());
    assert_eq!(tested.at_seat(0), Some(vec![0]));
    assert!(!tested.enter(1), "no serve loop is started");
    assert_eq!(tested.at_seat(1), Some(vec![]));
}

#[test]
fn a_consumer_that_does_not_wait_is_given_a_round_and_so_are_those_behind_it() {
    let mut tested = registered();
    let now = Arc::new(Seat::new(Claim::new(1, 1), false));
    assert!(tested.wait_queue.enter(1, Arc::clone(&now), true));
    tested.seats.push(now);
    tested.enter(1);
    assert_eq!(tested.at_seat(1), None);
    assert_eq!(tested.at_seat(2), None, "the lane was not checked since");
    let round = tested.next_round(1).unwrap();
    tested.hand_out(round, &[0, 0, 0]);
    assert_eq!(tested.at_seat(1), Some(vec![]));
    assert_eq!(tested.at_seat(2), Some(vec![]));
}

#[test]
fn a_doorbell_that_overtakes_an_answer_ends_the_registration_of_it() {
    let mut tested = registered();
    tested.wait_queue.ring(Some(0));
    let round = tested.next_round(1).unwrap();
    tested.wait_queue.doorbell(Some(0));
    tested.hand_out(round, &[0]);
    tested.enter(1);
    assert_eq!(tested.at_seat(1), None);
    assert!(tested.next_round(1).is_some());
}

#[test]
fn a_poll_counts_unless_something_has_happened_since_it_was_sent() {
    let mut tested = registered();
    tested.wait_queue.ring(Some(0));
    let round = tested.next_round(1).unwrap();
    tested.registers = false;
    tested.hand_out(round, &[0]);
    let polled: Vec<_> = tested.wait_queue.polled_lanes().collect();
    let (lane, events) = polled[0];
    tested.wait_queue.registered(lane, events - 1);
    assert!(!tested.wait_queue.is_known_to_be_empty());
    tested.wait_queue.registered(lane, events);
    assert!(tested.wait_queue.is_known_to_be_empty());
}

#[test]
fn a_doorbell_without_a_consumer_is_passed_on_once() {
    let mut tested = registered();
    tested.wait_queue.doorbell(Some(0));
    assert_eq!(
        tested.wait_queue.take_unserved(),
        [] as [u16; 0],
        "it has a consumer"
    );
    tested.wait_queue.leave(0);
    assert!(tested.next_round(1).is_none());
    assert_eq!(tested.wait_queue.take_unserved(), [0]);
    assert_eq!(tested.wait_queue.take_unserved(), [] as [u16; 0]);
    assert!(tested.wait_queue.is_idle());
}

#[test]
fn a_wait_queue_without_consumers_is_kept_until_its_registrations_are_withdrawn() {
    let mut tested = registered();
    tested.wait_queue.leave(0);
    assert!(!tested.wait_queue.is_idle());
    assert_eq!(tested.wait_queue.take_registrations(), [0]);
    assert!(tested.wait_queue.is_idle());
}

/// Without a doorbell no job waits for this process, and each call that is passed on would fail as well.
#[test]
fn a_failed_call_passes_on_the_doorbell_that_it_follows_and_no_other() {
    for is_rung in [true, false] {
        let mut tested = registered();
        match is_rung {
            true => tested.wait_queue.doorbell(Some(0)),
            false => tested.wait_queue.ring(Some(0)),
        };
        let round = tested.next_round(1).unwrap();
        tested.wait_queue.fail(&round);
        tested.wait_queue.leave(0);
        assert!(tested.next_round(1).is_none());
        assert_eq!(!tested.wait_queue.take_unserved().is_empty(), is_rung);
    }
}

#[test]
fn a_failed_call_ends_the_registration() {
    let mut tested = registered();
    tested.wait_queue.ring(Some(0));
    let round = tested.next_round(1).unwrap();
    tested.wait_queue.fail(&round);
    assert!(!tested.wait_queue.is_known_to_be_empty());
    tested.enter(1);
    assert!(tested.next_round(1).is_some());
}
