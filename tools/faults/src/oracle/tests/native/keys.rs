//! One unfinished job for each key.

use super::*;

fn retained(number: u64, if_exists: IfExists) -> VersionSpec {
    VersionSpec {
        retain: 5 * S,
        ..keyed(number, if_exists)
    }
}

#[test]
fn a_key_has_one_unfinished_job() {
    let first =
        NativeHistoryBuilder::new().publish(0, keyed(1, IfExists::Keep), PublishResult::Created);
    let done = first.clone().deliver(2 * MS, 1, 1).ack(9 * MS, 1, 1);
    let second = |history: NativeHistoryBuilder| {
        let history = history.job("B");
        let history = history.publish(S / 2, keyed(2, IfExists::Keep), PublishResult::Created);
        history
            .deliver(S / 2 + 2 * MS, 2, 1)
            .ack(S / 2 + 9 * MS, 2, 1)
    };
    second(done).expect(&[]);
    // The first one is still there when the second one is created.
    let both = second(first)
        .job("A")
        .deliver(S / 2 + 20 * MS, 1, 1)
        .ack(S / 2 + 30 * MS, 1, 1);
    both.expect(&[Defect::KeyShared]);
    both.failover(0, S).expect(&[]);
}

#[test]
fn a_retained_job_keeps_its_key_for_its_time() {
    let done = NativeHistoryBuilder::new()
        .publish(0, retained(1, IfExists::Keep), PublishResult::Created)
        .deliver(2 * MS, 1, 1)
        .ack(9 * MS, 1, 1);
    let next = |at, if_exists| {
        let history = done.clone().job("B");
        let history = history.publish(at, keyed(2, if_exists), PublishResult::Created);
        history.deliver(at + 2 * MS, 2, 1).ack(at + 9 * MS, 2, 1)
    };
    next(S, IfExists::Keep).expect(&[Defect::KeyShared]);
    next(S, IfExists::Replace).expect(&[]);
    next(6 * S, IfExists::Keep).expect(&[]);
    let exists = |at| {
        let result = VersionResult::Job {
            id: "A".to_owned(),
            outcome: PublishResult::Exists,
            state: JobState::Done,
            run_at: Some(T0),
            is_replayed: false,
        };
        done.clone()
            .publish_result(at, keyed(2, IfExists::Keep), result)
    };
    exists(S).expect(&[]);
    exists(6 * S).expect(&[Defect::KeyShared]);
}

#[test]
fn an_unfinished_job_is_found() {
    let not_found = |at| {
        let call = ClientRequest::Show {
            queue: QUEUE,
            job: JobAddress::Key(KEY),
        };
        let history = NativeHistoryBuilder::new()
            .publish(0, keyed(1, IfExists::Keep), PublishResult::Created)
            .request(at, call, RequestOutcome::NotFound);
        history.deliver(900 * MS, 1, 1).ack(909 * MS, 1, 1)
    };
    not_found(500 * MS).expect(&[Defect::Lost]);
    not_found(2 * S).expect(&[]);
}

#[test]
fn a_job_is_not_found_after_its_end() {
    let done = NativeHistoryBuilder::new()
        .publish(0, keyed(1, IfExists::Keep), PublishResult::Created)
        .deliver(2 * MS, 1, 1)
        .ack(9 * MS, 1, 1);
    done.clone()
        .show(5 * MS, |shown| shown.state = JobState::Leased)
        .expect(&[]);
    done.clone()
        .show(S, |shown| shown.state = JobState::Done)
        .expect(&[]);
    done.show(S, |_| {}).expect(&[Defect::AfterItsEnd]);
}
