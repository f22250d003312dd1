//! A stored job comes until it has ended.

use super::*;

#[test]
fn a_stored_version_comes() {
    let stored = NativeHistoryBuilder::new().publish(S, plain(1), PublishResult::Created);
    stored.expect(&[Defect::Lost]);
    let came = stored.clone().deliver(S + 2 * MS, 1, 1);
    came.expect(&[Defect::Lost]);
    came.clone().ack(S + 9 * MS, 1, 1).expect(&[]);
    // An ack without an answer may have been carried out; an ack that found the lease lost was not.
    let open = |outcome| {
        came.clone()
            .settle_with(S + 9 * MS, (1, 1), SettleAction::Ack, outcome)
    };
    open(no_job()).expect(&[]);
    open(RequestOutcome::NotSent).expect(&[Defect::Lost]);
    stored.failover(S, 2 * S).expect(&[]);
    let unclear = NativeHistoryBuilder::new().publish_with(S, plain(1), no_job());
    unclear.expect(&[]);
}

#[test]
fn a_version_that_was_refused_does_not_come() {
    let refused = |outcome| {
        let history = NativeHistoryBuilder::new().publish_with(S, plain(1), outcome);
        history.deliver(S + 2 * MS, 1, 1).ack(S + 9 * MS, 1, 1)
    };
    refused(no_job()).expect(&[]);
    refused(RequestOutcome::Refused(503)).expect(&[Defect::Foreign]);
    let kept = NativeHistoryBuilder::new()
        .publish(S, keyed(1, IfExists::Keep), PublishResult::Created)
        .publish(2 * S, keyed(2, IfExists::Keep), PublishResult::Exists);
    let kept = |number| {
        let history = kept.clone().deliver(2 * S + 9 * MS, number, 1);
        history.ack(2 * S + 20 * MS, number, 1)
    };
    // Otherwise it is not the first version that came.
    kept(2).expect(&[Defect::Foreign, Defect::Lost]);
}

#[test]
fn the_newest_version_comes_when_a_run_ends() {
    let running = NativeHistoryBuilder::new()
        .publish(S, keyed(1, IfExists::Keep), PublishResult::Created)
        .deliver(S + 2 * MS, 1, 1)
        .publish(
            S + 5 * MS,
            keyed(2, IfExists::Replace),
            PublishResult::Rerun,
        );
    let rerun = running
        .clone()
        .settle(S + 9 * MS, (1, 1), SettleAction::Ack, Outcome::Rerun);
    let again = rerun
        .clone()
        .deliver(S + 12 * MS, 2, 2)
        .ack(S + 20 * MS, 2, 2);
    again.expect(&[]);
    // The version that waited is lost with the ack.
    running
        .clone()
        .ack(S + 9 * MS, 1, 1)
        .expect(&[Defect::Lost]);
    rerun.expect(&[Defect::Lost]);
    // The old version comes again.
    let old = rerun.deliver(S + 12 * MS, 1, 2).ack(S + 20 * MS, 1, 2);
    old.expect(&[Defect::OldVersion, Defect::OldVersion, Defect::Lost]);
    // A cancel deletes the version that waits.
    let asked = running.cancel(S + 7 * MS, IfRunning::Ask, CancelEffect::Requested);
    asked.clone().ack(S + 9 * MS, 1, 1).expect(&[]);
    let came = asked.settle(S + 9 * MS, (1, 1), SettleAction::Ack, Outcome::Rerun);
    let came = came.deliver(S + 12 * MS, 2, 2).ack(S + 20 * MS, 2, 2);
    came.expect(&[Defect::AfterItsEnd]);
}

#[test]
fn a_replaced_version_does_not_come() {
    let replaced = NativeHistoryBuilder::new()
        .publish(500 * MS, keyed(1, IfExists::Keep), PublishResult::Created)
        .publish(S, keyed(2, IfExists::Replace), PublishResult::Replaced);
    let came = |number| {
        let history = replaced.clone().deliver(S + 9 * MS, number, 1);
        history.ack(S + 20 * MS, number, 1)
    };
    came(2).expect(&[]);
    came(1).expect(&[Defect::OldVersion, Defect::Lost]);
    came(1).failover(S, S + 5 * MS).expect(&[]);
}

#[test]
fn a_job_that_is_done_does_not_come_again() {
    let done = NativeHistoryBuilder::new()
        .publish(0, plain(1), PublishResult::Created)
        .deliver(2 * MS, 1, 1)
        .ack(9 * MS, 1, 1);
    done.expect(&[]);
    let again = done.deliver(LEASE + 4 * MS, 1, 2).ack(LEASE + 9 * MS, 1, 2);
    again.expect(&[Defect::AfterItsEnd, Defect::AfterItsEnd]);
    again.failover(9 * MS, 20 * MS).expect(&[]);
}

#[test]
fn a_cancelled_job_does_not_come() {
    let cancelled = |effect| {
        let history = NativeHistoryBuilder::new().publish(0, delayed(1, S), PublishResult::Created);
        let history = history.cancel(500 * MS, IfRunning::Refuse, effect);
        let history = history.deliver_with(S + 5 * MS, 1, 1, |got| got.run_at = Some(T0 + S + MS));
        history.ack(S + 9 * MS, 1, 1)
    };
    cancelled(CancelEffect::Deleted(JobState::Delayed))
        .expect(&[Defect::AfterItsEnd, Defect::AfterItsEnd]);
    cancelled(CancelEffect::AlreadyDone).expect(&[]);
    let open = NativeHistoryBuilder::new().publish(0, delayed(1, S), PublishResult::Created);
    open.clone()
        .cancel_with(500 * MS, IfRunning::Refuse, no_job())
        .expect(&[]);
    open.cancel_with(500 * MS, IfRunning::Refuse, RequestOutcome::NotSent)
        .expect(&[Defect::Lost]);
}

#[test]
fn a_job_with_a_requested_cancel_is_not_retried() {
    let asked = NativeHistoryBuilder::new()
        .publish(0, plain(1), PublishResult::Created)
        .deliver(2 * MS, 1, 1)
        .cancel(5 * MS, IfRunning::Ask, CancelEffect::Requested);
    asked.expect(&[]);
    let lost = asked
        .deliver(LEASE + 4 * MS, 1, 2)
        .ack(LEASE + 9 * MS, 1, 2);
    lost.expect(&[Defect::AfterItsEnd]);
}

#[test]
fn a_dead_job_comes_only_after_a_respawn() {
    let dead = NativeHistoryBuilder::new()
        .publish(0, plain(1), PublishResult::Created)
        .deliver(2 * MS, 1, 1)
        .settle(5 * MS, (1, 1), SettleAction::FailDead, Outcome::Dead);
    dead.expect(&[Defect::Lost]);
    let again =
        |history: NativeHistoryBuilder| history.deliver(S + 5 * MS, 1, 2).ack(S + 9 * MS, 1, 2);
    again(dead.clone()).expect(&[Defect::AfterItsEnd]);
    again(dead.respawn(S)).expect(&[]);
}

#[test]
fn the_versions_of_an_atomic_batch_are_stored_together() {
    let batch = |outcome| {
        let call = ClientRequest::Publish {
            queue: QUEUE,
            mode: PublishMode::Atomic,
            versions: vec![plain(1), plain(2)],
            replaced: None,
        };
        let history = NativeHistoryBuilder::new().request(0, call, outcome);
        history.deliver(2 * MS, 1, 1).ack(9 * MS, 1, 1)
    };
    let both = batch(no_job())
        .job("B")
        .deliver(2 * MS, 2, 1)
        .ack(9 * MS, 2, 1);
    both.expect(&[]);
    // The other one is unknown by its id, so that a request without an answer is the only trace of it.
    let refused = batch(RequestOutcome::Refused(409));
    refused.expect(&[Defect::Foreign]);
}

#[test]
fn an_unconfirmed_atomic_batch_may_be_lost_with_a_master() {
    let around = span(0, S);
    let batch = ClientRequest::Publish {
        queue: QUEUE,
        mode: PublishMode::Atomic,
        versions: vec![plain(1), plain(2)],
        replaced: None,
    };
    let mut stored = NativeHistoryBuilder::new()
        .request(0, batch.clone(), RequestOutcome::Failed(504))
        .deliver(2 * MS, 1, 1)
        .ack(9 * MS, 1, 1)
        .job("B")
        .deliver(2 * MS, 2, 1);
    stored.builder.0.is_replicated = true;
    stored.expect(&[Defect::Lost]);
    stored.builder = stored
        .builder
        .episode(Class::Failover, around, Some(around));
    stored.expect(&[]);
    let survived = stored.clone().deliver(2 * S, 2, 2);
    survived.expect(&[Defect::Lost]);
    let mut results = vec![stored.job_result(0, &plain(2), PublishResult::Created)];
    stored = stored.job("A");
    results.insert(0, stored.job_result(0, &plain(1), PublishResult::Created));
    let confirmed = RequestOutcome::Published(results);
    stored.request(MS, batch, confirmed).expect(&[Defect::Lost]);
}

#[test]
fn an_lmstfy_consumer_ends_a_native_job() {
    let came = NativeHistoryBuilder::new()
        .publish(0, plain(1), PublishResult::Created)
        .deliver_to_lmstfy(2 * MS, 1, 10);
    came.expect(&[Defect::Lost]);
    let acked = came.ack_on_lmstfy(9 * MS);
    acked.expect(&[]);
    acked
        .deliver(LEASE + 4 * MS, 1, 2)
        .expect(&[Defect::AfterItsEnd, Defect::Lost]);
}
