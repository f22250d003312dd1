//! The master changes under load, and all daemons follow.

use std::collections::HashSet;
use std::time::{Duration, Instant};
use tidegate_core::JobsByState;

use tidegate_testkit::{
    BackgroundTraffic, Daemon, QueueClient, SentinelGroup, consistency, eventually, print_figure,
};

use crate::fleet::Fleet;
use crate::turn;

const REPLICAS: usize = 2;
const PUBLISHERS: usize = 4;
const CONSUMERS: usize = 6;
/// The longest time from the fault to the first job that is published again. Sentinels need about 2 to 4 s to agree and
/// to promote a replica; a call without an answer waits 3 s.
const RECOVERY_MAX: Duration = Duration::from_secs(60);
/// The longest time to an answer: two calls after each other may wait 3 s each, and consumers wait for 1 s of it.
const ANSWER_MAX: Duration = Duration::from_millis(7500);

/// The event that replaces the master.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// An operator requests another master.
    Asked,
    /// An operator pauses writes, and then requests another master: a planned change.
    Planned,
    Killed,
    /// It is paused: connections stay open and nothing is answered.
    Paused,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_requested_failover_is_followed() {
    let _ = fail_over(Fault::Asked, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_loses_nothing() {
    let (published, acked) = fail_over(Fault::Planned, 0).await;
    assert_eq!(published.difference(&acked).count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_master_is_replaced() {
    let _ = fail_over(Fault::Killed, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_master_is_replaced_for_good() {
    let _ = fail_over(Fault::Paused, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_is_followed_with_one_sentinel_dead() {
    let _ = fail_over(Fault::Killed, 1).await;
}

/// Returns the jobs that were published, and those that were acked in the end.
async fn fail_over(fault: Fault, dead_sentinels: usize) -> (HashSet<String>, HashSet<String>) {
    let _turn = turn().await;
    let mut group = SentinelGroup::start(REPLICAS).await;
    let fleet = Fleet::start(2, 2, &group.settings()).await;
    let pids = fleet.pids();
    let queue = fleet.queue("q").await;
    let queues = [queue.clone(), queue.on_api(&fleet.apis[1])];
    let mut traffic = BackgroundTraffic::start(&queues, PUBLISHERS, CONSUMERS);
    traffic
        .wait_until("jobs pass", 200, |seen| seen.acked.len())
        .await;
    for sentinel in group.sentinels.iter_mut().rev().take(dead_sentinels) {
        sentinel.kill();
    }
    let waiting = waiting_for_its_time(&queue).await;
    let safe = replicated(&group, &traffic, &waiting).await;
    let errors = traffic.results().errors;

    let broken_at = Instant::now();
    match fault {
        Fault::Asked => group.request_failover().await,
        Fault::Planned => {
            group.pause_writes(0).await;
            group.request_failover().await;
        }
        Fault::Killed => tokio::task::block_in_place(|| group.servers[0].kill()),
        Fault::Paused => group.servers[0].pause().unwrap(),
    }
    group.wait_until_replaced(0).await;
    let agreed = broken_at.elapsed();
    until_followed(&fleet, &group).await;
    let followed = broken_at.elapsed();
    let took = traffic
        .wait_for_publish_after(broken_at, RECOVERY_MAX)
        .await;
    let failed = traffic.results().errors - errors;
    print_figure(&format!(
        "{fault:?}, {dead_sentinels} sentinels dead: sentinels agreed after {agreed:?}, all daemons had followed \
         after {followed:?}, first success of a request made after the fault {took:?} after it, {failed} failed requests"
    ));
    bring_back(&mut group, fault).await;

    traffic.wait_until_all_acked(|_| safe.clone()).await;
    until_empty(&group).await;
    traffic.end().await;
    traffic.print(&format!("{fault:?}"));
    {
        let seen = traffic.results();
        assert!(
            seen.slowest <= ANSWER_MAX,
            "an answer took {:?}",
            seen.slowest
        );
        print_figure(&format!(
            "{fault:?}: of {} jobs that the replicas had none was lost; of {} others {} were, acknowledged by \
             the old master and never replicated",
            safe.len(),
            seen.published.difference(&safe).count(),
            seen.published.difference(&seen.acked).count(),
        ));
    }
    after_all(&fleet).await;
    assert!(
        fleet.all_run() && fleet.pids() == pids,
        "no daemon has restarted"
    );
    assert!(!fleet.logs().contains("sesame"));
    until_followed(&fleet, &group).await;
    consistency::check(&group.url(group.master_seen_by(0).await)).await;
    let seen = traffic.results();
    (seen.published.clone(), seen.acked.clone())
}

/// Publishes jobs that become due after the fault, and returns their ids.
async fn waiting_for_its_time(queue: &QueueClient) -> HashSet<String> {
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
    traffic: &BackgroundTraffic,
    waiting: &HashSet<String>,
) -> HashSet<String> {
    let mut safe = traffic.results().published.clone();
    safe.extend(waiting.iter().cloned());
    group.wait_until_replicated(0, REPLICAS).await;
    safe
}

/// Waits until every daemon uses the master that the sentinels name. Before that it used only masters that the
/// sentinels had named, in that order. (They may name a third one: on a busy machine a server may be silent without a
/// fault.)
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

/// The masters to which a daemon has switched since its start.
fn moves(daemon: &Daemon) -> Vec<String> {
    let log = daemon.log();
    let lines = log
        .lines()
        .filter(|line| line.contains("another server now"));
    lines
        .filter_map(|line| Some(line.split("to=").nth(1)?.trim().to_owned()))
        .collect()
}

/// Brings the old master back. It is a master until the sentinels reconfigure it.
async fn bring_back(group: &mut SentinelGroup, fault: Fault) {
    match fault {
        Fault::Asked | Fault::Planned => {}
        Fault::Killed => {
            tokio::task::block_in_place(|| group.servers[0].restart()).unwrap();
        }
        Fault::Paused => group.servers[0].resume().unwrap(),
    }
    group.wait_until_in_sync(REPLICAS).await;
}

async fn until_empty(group: &SentinelGroup) {
    eventually(
        "every job is acked",
        RECOVERY_MAX,
        async || match consistency::totals(&group.url(group.master_seen_by(0).await)).await {
            totals if totals == JobsByState::default() => Ok(()),
            totals => Err(format!("{totals:?}")),
        },
    )
    .await;
}

/// Tokens are kept and created, consumers are woken, and timers run as before the fault.
async fn after_all(fleet: &Fleet) {
    let queue = fleet.queue("after").await;
    for api in &fleet.apis {
        let queue = queue.on_api(api);
        let waiting = tokio::spawn(
            queue
                .with_separate_connections()
                .consume()
                .timeout_s(20)
                .ttr_s(60)
                .job(),
        );
        api.wait_for_waiting_consumers(1).await;
        let id = queue.publish("x").delay_s(1).id().await;
        assert_eq!(waiting.await.unwrap().unwrap().id, id);
        queue.ack(&id).await;
    }
}
