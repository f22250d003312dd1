//! One holder at a time.

use super::*;

fn delivered() -> NativeHistoryBuilder {
    NativeHistoryBuilder::new()
        .publish(0, plain(1), PublishResult::Created)
        .deliver(2 * MS, 1, 1)
}

fn acked_at(history: NativeHistoryBuilder, at: u64, attempt: u32) -> NativeHistoryBuilder {
    history.deliver(at, 1, attempt).ack(at + 9 * MS, 1, attempt)
}

#[test]
fn a_lease_is_exclusive_until_its_end() {
    acked_at(delivered(), LEASE + 3 * MS, 2).expect(&[]);
    acked_at(delivered(), LEASE + 2 * MS, 2).expect(&[Defect::Doubled]);
}

#[test]
fn an_extended_lease_is_exclusive_until_its_new_end() {
    let until = extended_to(T0 + 4 * S);
    let touched = delivered().settle(S, (1, 1), SettleAction::Touch(3 * S), until);
    acked_at(touched.clone(), 4 * S, 2).expect(&[]);
    acked_at(touched.clone(), 3 * S, 2).expect(&[Defect::Doubled]);
    let lost = touched.failover(0, S + MS);
    acked_at(lost, 3 * S, 2).expect(&[]);
}

#[test]
fn an_attempt_is_delivered_once() {
    acked_at(delivered(), 3 * S, 1).expect(&[Defect::Doubled]);
    acked_at(delivered(), 3 * S, 0).expect(&[Defect::Doubled, Defect::Doubled]);
    acked_at(delivered().failover(0, S), 3 * S, 1).expect(&[]);
    // Reservations that no answer shows have attempts, too.
    acked_at(delivered(), 3 * S, 7).expect(&[]);
}

#[test]
fn a_worker_that_lost_its_job_settles_nothing() {
    let twice = acked_at(delivered(), 3 * S, 2);
    let late = |result| {
        twice
            .clone()
            .settle(3 * S + 5 * MS, (1, 1), SettleAction::Touch(S), result)
    };
    late(Outcome::Lost).expect(&[]);
    late(extended_to(T0 + 4 * S)).expect(&[Defect::Doubled]);
}

#[test]
fn a_held_job_can_be_settled() {
    let ack = |at, result| delivered().settle(at, (1, 1), SettleAction::Ack, result);
    ack(S, Outcome::DONE).expect(&[]);
    ack(S, Outcome::Gone).expect(&[Defect::LeaseBroken, Defect::Lost]);
    ack(LEASE, Outcome::Lost).expect(&[Defect::Lost]);
    // A repeated ack finds nothing.
    ack(S, Outcome::DONE)
        .settle(S + 5 * MS, (1, 1), SettleAction::Ack, Outcome::Gone)
        .expect(&[]);
    let revoked = delivered().cancel(500 * MS, IfRunning::Revoke, CancelEffect::Revoked);
    revoked
        .settle(S, (1, 1), SettleAction::Ack, Outcome::Gone)
        .expect(&[]);
    let refused = delivered().cancel(500 * MS, IfRunning::Ask, CancelEffect::Requested);
    refused
        .settle(S, (1, 1), SettleAction::Ack, Outcome::Gone)
        .expect(&[Defect::LeaseBroken]);
}

#[test]
fn a_released_job_comes_again_at_once() {
    let released = delivered().settle(S, (1, 1), SettleAction::Release(0), Outcome::Released);
    acked_at(released, S + 2 * MS, 2).expect(&[]);
    let later = delivered().settle(S, (1, 1), SettleAction::Release(S), Outcome::Released);
    acked_at(later.clone(), 2 * S + MS, 2).expect(&[]);
    acked_at(later, 2 * S - MS, 2).expect(&[Defect::Early]);
}
