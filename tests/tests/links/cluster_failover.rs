//! A primary of a cluster is replaced in the middle of traffic, and everybody follows.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tidegate_testkit::{ClusterGroup, Queue, Traffic, eventually, figure, world};

use crate::fleet::Fleet;
use crate::turn;

const QUEUES: usize = 8;
/// The longest time from the fault to the first job that is published again at the failed server's
/// queues. The others notice after 1.5 s, agree and promote a replica within 2 s or so, a call that got
/// no answer waits for 3 s.
const RECOVERY_MAX: Duration = Duration::from_secs(60);

/// Queues of all primaries, with traffic.
async fn traffic(fleet: &Fleet) -> (Vec<Queue>, Traffic) {
    let mut queues = Vec::new();
    for number in 0..QUEUES {
        let queue = fleet.queue(&format!("q{number}")).await;
        queues.push(queue.at(&fleet.apis[number % 2]));
    }
    let traffic = Traffic::start(&queues, QUEUES, 2 * QUEUES);
    traffic
        .until("jobs pass", 300, |seen| seen.acked.len())
        .await;
    (queues, traffic)
}

/// Publishes jobs that come due after the fault, and answers their ids.
async fn waiting_for_their_time(queues: &[Queue]) -> HashSet<String> {
    let mut ids = HashSet::new();
    for queue in queues {
        let bodies: Vec<String> = (0..5).map(|number| number.to_string()).collect();
        let publish = queue.publish_bulk(&bodies).delay_s(4).ttl_s(0).tries(1000);
        ids.extend(publish.ids().await);
    }
    ids
}

/// Every queue takes and hands out jobs again.
async fn until_all_work(queues: &[Queue], since: Instant) {
    for queue in queues {
        eventually("a queue works again", RECOVERY_MAX, async || {
            let answer = queue.publish("again").tries(1000).ttl_s(0).send().await;
            match answer.map(|answer| answer.status) {
                Ok(201) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
    figure(&format!(
        "all queues work {:?} after the fault",
        since.elapsed()
    ));
}

async fn until_empty(group: &ClusterGroup) {
    eventually(
        "every job is worked off",
        RECOVERY_MAX,
        async || match group.totals().await {
            totals if totals == world::Totals::default() => Ok(()),
            totals => Err(format!("{totals:?}")),
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_was_asked_for_loses_nothing() {
    let _turn = turn().await;
    let group = ClusterGroup::start().await;
    let fleet = Fleet::start(2, 2, &group.settings()).await;
    let (_, mut traffic) = traffic(&fleet).await;
    let begin = Instant::now();
    for primary in 0..3 {
        let replica = group.replica_of(primary).await;
        group.ask_for_failover(replica).await;
        group.until_in_sync().await;
    }
    figure(&format!("three failovers in {:?}", begin.elapsed()));
    let seen = traffic.seen().acked.len();
    traffic
        .until("jobs pass", seen + 300, |seen| seen.acked.len())
        .await;
    traffic.until_all_acked(|seen| seen.published.clone()).await;
    until_empty(&group).await;
    traffic.end().await;
    traffic.show("all primaries replaced, asked for");
    assert_eq!(group.primaries().await.len(), 3);
    group.check_world().await;
    let logs = fleet.logs();
    assert!(fleet.all_run() && !logs.contains("sesame"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_died_is_left_and_its_replica_followed() {
    let _turn = turn().await;
    let mut group = ClusterGroup::start().await;
    let fleet = Fleet::start(2, 2, &group.settings()).await;
    let pids = fleet.pids();
    let (queues, mut traffic) = traffic(&fleet).await;
    let waiting = waiting_for_their_time(&queues).await;
    let mut safe = traffic.seen().published.clone();
    safe.extend(waiting);
    group.until_replicated().await;
    let replica = group.replica_of(0).await;
    let errors = traffic.seen().errors;

    let broken_at = Instant::now();
    tokio::task::block_in_place(|| group.servers[0].kill());
    group.until_primary(replica).await;
    figure(&format!("promoted after {:?}", broken_at.elapsed()));
    until_all_work(&queues, broken_at).await;
    let failed = traffic.seen().errors - errors;
    tokio::task::block_in_place(|| group.servers[0].start_again()).unwrap();
    group.until_in_sync().await;

    traffic.until_all_acked(|_| safe.clone()).await;
    until_empty(&group).await;
    traffic.end().await;
    traffic.show("a primary killed");
    {
        let seen = traffic.seen();
        figure(&format!(
            "of {} jobs that the replicas had none was lost; of {} others {} were; {failed} failed requests",
            safe.len(),
            seen.published.difference(&safe).count(),
            seen.published.difference(&seen.acked).count(),
        ));
    }
    assert!(fleet.all_run() && fleet.pids() == pids, "daemons ran on");
    assert!(!fleet.logs().contains("sesame"));
    group.check_world().await;
}
