//! A primary of a cluster is replaced under load, and all daemons follow.

use std::collections::HashSet;
use std::time::{Duration, Instant};
use tidegate_core::JobsByState;

use tidegate_testkit::{BackgroundTraffic, ClusterGroup, QueueClient, eventually, print_figure};

use crate::fleet::Fleet;
use crate::turn;

const QUEUES: usize = 8;
/// The longest time from the fault to the first job that is published again in the queues of the failed server. The
/// other servers notice after 1.5 s, agree and promote a replica within about 2 s; a call without an answer waits 3 s.
const RECOVERY_MAX: Duration = Duration::from_secs(60);

/// Queues of all primaries, with traffic.
async fn traffic(fleet: &Fleet) -> (Vec<QueueClient>, BackgroundTraffic) {
    let mut queues = Vec::new();
    for number in 0..QUEUES {
        let queue = fleet.queue(&format!("q{number}")).await;
        queues.push(queue.on_api(&fleet.apis[number % 2]));
    }
    let traffic = BackgroundTraffic::start(&queues, QUEUES, 2 * QUEUES);
    traffic
        .wait_until("jobs pass", 300, |seen| seen.acked.len())
        .await;
    (queues, traffic)
}

/// Publishes jobs that become due after the fault, and returns their ids.
async fn waiting_for_their_time(queues: &[QueueClient]) -> HashSet<String> {
    let mut ids = HashSet::new();
    for queue in queues {
        let bodies: Vec<String> = (0..5).map(|number| number.to_string()).collect();
        let publish = queue.publish_bulk(&bodies).delay_s(4).ttl_s(0).tries(1000);
        ids.extend(publish.ids().await);
    }
    ids
}

/// Waits until every queue accepts jobs again.
async fn until_all_work(queues: &[QueueClient], since: Instant) {
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
    print_figure(&format!(
        "all queues work {:?} after the fault",
        since.elapsed()
    ));
}

async fn until_empty(group: &ClusterGroup) {
    eventually("every job is acked", RECOVERY_MAX, async || {
        match group.totals().await {
            totals if totals == JobsByState::default() => Ok(()),
            totals => Err(format!("{totals:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_requested_failover_loses_nothing() {
    let _turn = turn().await;
    let group = ClusterGroup::start().await;
    let fleet = Fleet::start(2, 2, &group.settings()).await;
    let (_, mut traffic) = traffic(&fleet).await;
    let begin = Instant::now();
    for primary in 0..3 {
        let replica = group.replica_of(primary).await;
        group.request_failover(replica).await;
        group.wait_until_in_sync().await;
    }
    print_figure(&format!("three failovers in {:?}", begin.elapsed()));
    let seen = traffic.results().acked.len();
    traffic
        .wait_until("jobs pass", seen + 300, |seen| seen.acked.len())
        .await;
    traffic
        .wait_until_all_acked(|seen| seen.published.clone())
        .await;
    until_empty(&group).await;
    traffic.end().await;
    traffic.print("all primaries replaced, asked for");
    assert_eq!(group.primaries().await.len(), 3);
    group.check_consistency().await;
    let logs = fleet.logs();
    assert!(fleet.all_run() && !logs.contains("sesame"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_primary_is_replaced_by_its_replica() {
    let _turn = turn().await;
    let mut group = ClusterGroup::start().await;
    let fleet = Fleet::start(2, 2, &group.settings()).await;
    let pids = fleet.pids();
    let (queues, mut traffic) = traffic(&fleet).await;
    let waiting = waiting_for_their_time(&queues).await;
    let mut safe = traffic.results().published.clone();
    safe.extend(waiting);
    group.wait_until_replicated().await;
    let replica = group.replica_of(0).await;
    let errors = traffic.results().errors;

    let broken_at = Instant::now();
    tokio::task::block_in_place(|| group.servers[0].kill());
    group.wait_until_primary(replica).await;
    print_figure(&format!("promoted after {:?}", broken_at.elapsed()));
    until_all_work(&queues, broken_at).await;
    let failed = traffic.results().errors - errors;
    tokio::task::block_in_place(|| group.servers[0].restart()).unwrap();
    group.wait_until_in_sync().await;

    traffic.wait_until_all_acked(|_| safe.clone()).await;
    until_empty(&group).await;
    traffic.end().await;
    traffic.print("a primary killed");
    {
        let seen = traffic.results();
        print_figure(&format!(
            "of {} jobs that the replicas had none was lost; of {} others {} were; {failed} failed requests",
            safe.len(),
            seen.published.difference(&safe).count(),
            seen.published.difference(&seen.acked).count(),
        ));
    }
    assert!(
        fleet.all_run() && fleet.pids() == pids,
        "no daemon has restarted"
    );
    assert!(!fleet.logs().contains("sesame"));
    group.check_consistency().await;
}
