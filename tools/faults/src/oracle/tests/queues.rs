//! Purges and respawns.

use super::*;

fn purge_ready(history: HistoryBuilder, at: u64, outcome: RequestOutcome) -> HistoryBuilder {
    history.request(at, ClientRequest::PurgeReady { queue: 3 }, outcome)
}

fn purge_dead(history: HistoryBuilder, at: u64) -> HistoryBuilder {
    let request = ClientRequest::PurgeDead { queue: 3, limit: 5 };
    history.request(at, request, RequestOutcome::Deleted)
}

#[test]
fn a_purge_deletes_what_may_have_been_ready() {
    let ready = || HistoryBuilder::new().publish(version_spec(S, 0, 1));
    purge_ready(ready(), 500 * MS, RequestOutcome::Deleted).expect(&[Defect::Lost]);
    purge_ready(ready(), S + 2 * MS, RequestOutcome::Deleted).expect(&[]);
    purge_ready(ready(), S + 2 * MS, no_job()).expect(&[]);
    purge_ready(ready(), S + 2 * MS, RequestOutcome::NotSent).expect(&[Defect::Lost]);
    // A job that a consumer held was not ready.
    let held = || {
        HistoryBuilder::new()
            .publish(version_spec(0, 0, 2))
            .deliver(S, 1)
    };
    let held = || {
        let mut history = held();
        history.0.busy.push(span(0, S));
        history
    };
    purge_ready(held(), 2 * S, RequestOutcome::Deleted).expect(&[Defect::Lost]);
    purge_ready(held(), S + TTR, RequestOutcome::Deleted).expect(&[]);
    // Dead jobs are not ready either.
    let dead = || {
        HistoryBuilder::new()
            .publish(version_spec(0, 0, 1))
            .deliver(2 * MS, 0)
    };
    purge_ready(dead(), 5 * S, RequestOutcome::Deleted).expect(&[Defect::Lost]);
    purge_ready(dead().respawn(4 * S), 5 * S, RequestOutcome::Deleted).expect(&[]);
}

#[test]
fn a_purge_of_the_dead_deletes_what_may_have_died() {
    let used = || {
        HistoryBuilder::new()
            .publish(version_spec(0, 0, 1))
            .deliver(2 * MS, 0)
    };
    purge_dead(used(), S).expect(&[Defect::Lost]);
    purge_dead(used(), TTR + 3 * MS).expect(&[]);
    let unused = || {
        HistoryBuilder::new()
            .publish(version_spec(0, 0, 2))
            .deliver(2 * MS, 1)
    };
    purge_dead(unused(), 6 * S).expect(&[Defect::Lost]);
    purge_dead(unused().consume(span(3 * S, 4 * S), no_job()), 6 * S).expect(&[]);
}

#[test]
fn a_certainly_purged_job_is_not_delivered() {
    let purged = |history: HistoryBuilder| {
        let history = purge_ready(history, 900 * MS, RequestOutcome::Deleted);
        let history = history.deliver(990 * MS, 0);
        history.ack(S, acked())
    };
    let history = HistoryBuilder::new().publish(version_spec(0, 0, 1));
    purged(history.clone()).expect(&[Defect::AfterItsEnd]);
    // A consumer whose timeout had passed may have held it during the purge, and released it.
    let nothing = RequestOutcome::Delivered(Vec::new());
    let gone = |to| purged(history.clone().consume(span(MS, to), nothing.clone()));
    gone(800 * MS).expect(&[]);
    gone(200 * MS).expect(&[Defect::AfterItsEnd]);
    purged(HistoryBuilder::new().publish(version_spec(MS, 0, 1))).expect(&[]);
}

#[test]
fn a_respawned_job_has_one_more_try_and_is_delivered_immediately() {
    let dead = HistoryBuilder::new()
        .publish(version_spec(0, 0, 1))
        .deliver(2 * MS, 0);
    let again = |at, tries_left| {
        let history = dead.clone().respawn(5 * S).deliver(at, tries_left);
        history.ack(at + 5 * MS, acked())
    };
    again(5 * S + 2 * MS, 0).expect(&[]);
    again(5 * S + 2 * MS, 1).expect(&[Defect::Doubled]);
    again(6 * S + 2 * MS, 0).expect(&[Defect::Late]);
    // A dead job need not be delivered; a respawned one must be.
    let twice = dead
        .respawn(5 * S)
        .deliver(5 * S + 2 * MS, 0)
        .respawn(8 * S);
    twice.expect(&[Defect::Lost]);
    twice
        .deliver(8 * S + 2 * MS, 0)
        .ack(9 * S, acked())
        .expect(&[]);
}

/// A master that is about to be replaced respawns a job, and its delivery and ack are lost with it. The new master, on
/// which the job is still dead, respawns it too, before the lease of the lost delivery would have ended. Found by the
/// fault run 45112.
#[test]
fn a_job_may_be_respawned_again_if_its_delivery_was_lost() {
    let failover = span(4 * S, 7 * S);
    let twice = HistoryBuilder::new()
        .publish(version_spec(0, 0, 1))
        .deliver(2 * MS, 0)
        .respawn(5 * S)
        .deliver(5 * S + 20 * MS, 0)
        .ack(5 * S + 60 * MS, acked())
        .respawn(5 * S + 500 * MS)
        .deliver(6 * S, 0)
        .ack(6 * S + 60 * MS, acked());
    let lost = |span| twice.clone().episode(Class::Failover, span, Some(span));
    lost(failover).expect(&[]);
    let before = span(S, 2 * S);
    let found = judge(&lost(before).0).findings;
    assert!(found.iter().any(|it| it.defect == Defect::Doubled));
}

#[test]
fn tries_do_not_vanish() {
    let vanished = |history: HistoryBuilder| {
        let history = history.publish(version_spec(0, 0, 3)).deliver(2 * MS, 2);
        let history = history.deliver(TTR + 5 * MS, 0);
        history.ack(5 * S, acked())
    };
    vanished(HistoryBuilder::new()).expect(&[Defect::DiedEarly]);
    vanished(HistoryBuilder::new().consume(span(S, TTR + 3 * MS), no_job())).expect(&[]);
    // While replies of Redis were lost, an API may have reserved it for consumers that continued to
    // wait.
    let cut = HistoryBuilder::new().episode(Class::NetReplies, span(TTR, 3 * S), None);
    vanished(cut).expect(&[]);
    // On a busy machine a job that was reserved for a consumer that had left can go back after its lease.
    let mut busy = HistoryBuilder::new();
    busy.0.busy.push(span(TTR, TTR + 4 * MS));
    vanished(busy).expect(&[]);
    // If it was busy all the time, each consumer that got no job may have been the one.
    let slow = |consumers: u64| {
        let mut slow = HistoryBuilder::new();
        slow.0.operations.clear();
        slow.0.bound = 2 * S;
        let answered = (1..=consumers).fold(slow, |history, _| {
            history.consume(span(S, TTR + 3 * MS), RequestOutcome::Delivered(Vec::new()))
        });
        vanished(answered)
    };
    slow(1).expect(&[]);
    slow(0).expect(&[Defect::DiedEarly]);
    // However long the fault: a lease is longer than the time between both deliveries.
    let twice = |at| {
        let history = HistoryBuilder::new().episode(Class::NetReplies, span(0, 20 * S), None);
        let history = history.publish(version_spec(0, 0, 4)).deliver(2 * MS, 3);
        let history = history.deliver(at, 0);
        history.ack(20 * S, acked())
    };
    twice(TTR + 5 * MS).expect(&[Defect::DiedEarly]);
    twice(2 * TTR + 5 * MS).expect(&[]);
}
