//! Repeated requests.

use super::*;

fn repeatable(number: u64) -> VersionSpec {
    VersionSpec {
        idempotency_key: Some(number),
        ..plain(number)
    }
}

fn replayed(id: &str) -> VersionResult {
    VersionResult::Job {
        id: id.to_owned(),
        outcome: PublishResult::Created,
        state: JobState::Ready,
        run_at: Some(T0),
        is_replayed: true,
    }
}

#[test]
fn a_repeated_request_creates_nothing() {
    let first = NativeHistoryBuilder::new().publish(0, repeatable(1), PublishResult::Created);
    let first = first.deliver(2 * MS, 1, 1).ack(9 * MS, 1, 1);
    let repeated = |result| first.clone().publish_result(S, repeatable(1), result);
    repeated(replayed("A")).expect(&[]);
    repeated(replayed("B")).expect(&[Defect::Repeated]);
    let again = first
        .clone()
        .publish(S, repeatable(1), PublishResult::Created);
    again.expect(&[Defect::AfterItsEnd, Defect::Repeated]);
    again.failover(0, 2 * S).expect(&[]);
    // A second job with the same payload.
    let open = NativeHistoryBuilder::new()
        .publish_with(0, repeatable(1), no_job())
        .publish_result(S, repeatable(1), replayed("A"));
    let open = open.deliver(S + 20 * MS, 1, 1).ack(S + 30 * MS, 1, 1);
    open.expect(&[]);
    let twice = open
        .job("B")
        .deliver(S + 40 * MS, 1, 1)
        .ack(S + 50 * MS, 1, 1);
    twice.expect(&[Defect::Repeated]);
}

#[test]
fn a_replay_proves_that_the_first_request_was_carried_out() {
    let open = NativeHistoryBuilder::new().publish_with(0, repeatable(1), no_job());
    open.expect(&[]);
    open.publish_result(S, repeatable(1), replayed("A"))
        .expect(&[Defect::Lost]);
}

#[test]
fn native_clients_send_valid_requests() {
    let refused = |status| {
        NativeHistoryBuilder::new().publish_with(0, plain(1), RequestOutcome::Refused(status))
    };
    refused(503).expect(&[]);
    refused(400).expect(&[Defect::Refused]);
}
