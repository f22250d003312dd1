//! The master changes in the middle of traffic, and everybody follows.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tidegate_testkit::{Daemon, Queue, SentinelGroup, Traffic, eventually, figure, world};

use crate::fleet::Fleet;
use crate::turn;

const REPLICAS: usize = 2;
const PUBLISHERS: usize = 4;
const CONSUMERS: usize = 6;
/// The longest time from the fault to the first job that is published again. Sentinels need some 2 to 4 s
/// to agree and to promote a replica, a call that got no answer waits for 3 s.
const RECOVERY_MAX: Duration = Duration::from_secs(60);
/// The longest time that an answer may take: two calls after each other may each wait for 3 s, and
/// consumers wait for 1 s of it.
const ANSWER_MAX: Duration = Duration::from_millis(7500);

/// What happens to the master.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Nothing; an operator asks for another one.
    Asked,
    /// An operator has it take no more writes, and asks for another one: what a planned change is made
    /// of.
    Planned,
    /// It dies.
    Killed,
    /// It falls silent: connections stay open.
    Paused,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_was_asked_for_is_followed() {
    let _ = fail_over(Fault::Asked, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_loses_nothing_at_all() {
    let (published, acked) = fail_over(Fault::Planned, 0).await;
    assert_eq!(published.difference(&acked).count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_died_is_left() {
    let _ = fail_over(Fault::Killed, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_fell_silent_is_left_and_not_returned_to() {
    let _ = fail_over(Fault::Paused, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_that_is_dead_too_changes_nothing() {
    let _ = fail_over(Fault::Killed, 1).await;
}

/// Answers which jobs were published, and which of them were acked in the end.
async fn fail_over(fault: Fault, dead_sentinels: usize) -> (HashSet<String>, HashSet<String>) {
    let _turn = turn().await;
    let mut group = SentinelGroup::start(REPLICAS).await;
    let fleet = Fleet::start(2, 2, &group.settings()).await;
    let pids = fleet.pids();
    let queue = fleet.queue("q").await;
    let queues = [queue.clone(), queue.at(&fleet.apis[1])];
    let mut traffic = Traffic::start(&queues, PUBLISHERS, CONSUMERS);
    traffic
        .until("jobs pass", 200, |seen| seen.acked.len())
        .await;
    for sentinel in group.sentinels.iter_mut().rev().take(dead_sentinels) {
        sentinel.kill();
    }
    let waiting = waiting_for_its_time(&queue).await;
    let safe = replicated(&group, &traffic, &waiting).await;
    let errors = traffic.seen().errors;

    let broken_at = Instant::now();
    match fault {
        Fault::Asked => group.ask_for_failover().await,
        Fault::Planned => {
            group.pause_writes(0).await;
            group.ask_for_failover().await;
        }
        Fault::Killed => tokio::task::block_in_place(|| group.servers[0].kill()),
        Fault::Paused => group.servers[0].pause().unwrap(),
    }
    group.until_replaced(0).await;
    let agreed = broken_at.elapsed();
    until_followed(&fleet, &group).await;
    let followed = broken_at.elapsed();
    let took = traffic.until_published_after(broken_at, RECOVERY_MAX).await;
    let failed = traffic.seen().errors - errors;
    figure(&format!(
        "{fault:?}, {dead_sentinels} sentinels dead: sentinels agreed after {agreed:?}, all daemons had followed \
         after {followed:?}, first success of a request made after the fault {took:?} after it, {failed} failed requests"
    ));
    bring_back(&mut group, fault).await;

    traffic.until_all_acked(|_| safe.clone()).await;
    until_empty(&group).await;
    traffic.end().await;
    traffic.show(&format!("{fault:?}"));
    {
        let seen = traffic.seen();
        assert!(
            seen.slowest <= ANSWER_MAX,
            "an answer took {:?}",
            seen.slowest
        );
        figure(&format!(
            "{fault:?}: of {} jobs that the replicas had none was lost; of {} others {} were, acknowledged by \
             the old master and never replicated",
            safe.len(),
            seen.published.difference(&safe).count(),
            seen.published.difference(&seen.acked).count(),
        ));
    }
    after_all(&fleet).await;
    assert!(fleet.all_run() && fleet.pids() == pids, "daemons ran on");
    assert!(!fleet.logs().contains("sesame"));
    until_followed(&fleet, &group).await;
    world::check(&group.url(group.master_by(0).await)).await;
    let seen = traffic.seen();
    (seen.published.clone(), seen.acked.clone())
}

/// Publishes jobs that come due after the fault, and answers their ids.
async fn waiting_for_its_time(queue: &Queue) -> HashSet<String> {
    let mut ids = HashSet::new();
    for delay_s in [3, 5, 7] {
        let bodies: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        let publish = queue
            .publish_bulk(&bodies)
            .delay_s(delay_s)
            .ttl_s(0)
            .tries(1000);
        ids.extend(publish.ids().await);
    }
    ids
}

/// The jobs that were acknowledged before now, once both replicas have them.
async fn replicated(
    group: &SentinelGroup,
    traffic: &Traffic,
    waiting: &HashSet<String>,
) -> HashSet<String> {
    let mut safe = traffic.seen().published.clone();
    safe.extend(waiting.iter().cloned());
    group.until_replicated(0, REPLICAS).await;
    safe
}

/// Waits until every daemon is at the master that the sentinels name. On its way it went to masters that
/// the sentinels named, in their order, and to nobody else. (They may name a third one: on a busy
/// machine a server may be silent without a fault.)
async fn until_followed(fleet: &Fleet, group: &SentinelGroup) {
    eventually("all daemons follow", RECOVERY_MAX, async || {
        let named = group.masters();
        for daemon in fleet.daemons() {
            let moves = moves(daemon);
            let mut rest = named.iter();
            let in_order = moves.iter().all(|to| rest.any(|named| named == to));
            if !in_order || moves.last() != named.last() || moves.is_empty() {
                return Err(format!("named {named:?}, went to {moves:?}"));
            }
        }
        Ok(())
    })
    .await;
}

/// The servers that a daemon went over to since its start.
fn moves(daemon: &Daemon) -> Vec<String> {
    let log = daemon.log();
    let lines = log
        .lines()
        .filter(|line| line.contains("another server now"));
    lines
        .filter_map(|line| Some(line.split("to=").nth(1)?.trim().to_owned()))
        .collect()
}

/// The old master is there again and believes to be one, until the sentinels tell it otherwise.
async fn bring_back(group: &mut SentinelGroup, fault: Fault) {
    match fault {
        Fault::Asked | Fault::Planned => {}
        Fault::Killed => {
            tokio::task::block_in_place(|| group.servers[0].start_again()).unwrap();
        }
        Fault::Paused => group.servers[0].resume().unwrap(),
    }
    group.until_in_sync(REPLICAS).await;
}

async fn until_empty(group: &SentinelGroup) {
    eventually(
        "every job is worked off",
        RECOVERY_MAX,
        async || match world::totals(&group.url(group.master_by(0).await)).await {
            totals if totals == world::Totals::default() => Ok(()),
            totals => Err(format!("{totals:?}")),
        },
    )
    .await;
}

/// What worked before works: tokens are kept, new ones made, consumers woken, timers run.
async fn after_all(fleet: &Fleet) {
    let queue = fleet.queue("after").await;
    for api in &fleet.apis {
        let queue = queue.at(api);
        let waiting = tokio::spawn(queue.apart().consume().timeout_s(20).ttr_s(60).job());
        api.until_waiting(1).await;
        let id = queue.publish("x").delay_s(1).id().await;
        assert_eq!(waiting.await.unwrap().unwrap().id, id);
        queue.ack(&id).await;
    }
}
