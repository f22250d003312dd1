//! Redis Cluster: several pumps beside a primary that falls silent.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate_testkit::{ClusterGroup, QueueClient, RedisOptions, eventually, print_figure};
use tokio::time::{Instant, sleep, sleep_until};

use crate::cluster_consumers::NO_FAILOVER_MS;
use crate::cluster_pumps::{
    FIRST_DUE, LATE_WHEN_ONE_STOPS_MAX, QUEUES, lateness, latest, queues_where, silent_one,
};
use crate::fleet::Fleet;
use crate::turn;

/// More than a pump may take to stop.
const STOP_LIMIT: Duration = Duration::from_secs(15);
const SHARED_LIMIT: Duration = Duration::from_secs(20);
const BUCKETS: f64 = 256.0;
/// Room for a busy machine. Calls to a silent primary wait for longer, and buckets that a stopped pump does not release
/// are free after two thirds of [`LEASE`] at the earliest.
const LATE_MAX: Duration = Duration::from_secs(8);
const LEASE: &str = "15s";
/// Between two jobs of a queue: long enough that a slow machine consumes jobs as fast as they are published.
const ROUND: Duration = Duration::from_millis(250);
const ROUNDS: u32 = 76;
/// Consumers of a queue, which share its jobs evenly.
const CONSUMERS: u32 = 4;
/// Publishes and jobs that take longer than this are printed, since their times tell why.
const NOTABLE: Duration = Duration::from_secs(1);

/// The settings of a pool whose calls wait for a silent primary for much longer than a job may be late.
fn patient_settings(group: &ClusterGroup) -> String {
    format!("{}command_timeout = \"30s\"\n", group.settings())
}

/// Waits until the pumps together lead all buckets.
async fn until_shared(fleet: &Fleet) {
    eventually("all buckets are led", SHARED_LIMIT, async || {
        let mut led = 0.0;
        for pump in &fleet.pumps {
            led += pump.metric("tidegate_pump_buckets_held").await;
        }
        if led == BUCKETS { Ok(()) } else { Err(led) }
    })
    .await;
}

/// Publishes jobs in each queue, one every [`ROUND`], and consumes them. Returns how late they were, in order.
async fn steady_lateness(
    queues: &[QueueClient],
    meanwhile: impl Future<Output = ()>,
) -> Vec<Duration> {
    let begin = Instant::now();
    let producing = queues.iter().map(|queue| async move {
        for round in 0..ROUNDS {
            sleep_until(begin + round * ROUND).await;
            let published_at = begin.elapsed();
            let body = published_at.as_millis().to_string();
            let id = queue.publish(body).delay_s(1).ttl_s(600).id().await;
            note_if_long("published", &id, published_at, begin.elapsed());
        }
    });
    let consumers = queues.iter().flat_map(|queue| [queue; CONSUMERS as usize]);
    let consuming = consumers.map(|queue| async move {
        let queue = queue.with_separate_connections();
        let mut lateness = Vec::new();
        for _ in 0..ROUNDS / CONSUMERS {
            let consume = queue.consume().timeout_s(30).ttr_s(60);
            let job = consume.job().await.expect("the job becomes ready");
            let published_ms: u64 = String::from_utf8(job.body).unwrap().parse().unwrap();
            let due = Duration::from_millis(published_ms) + Duration::from_secs(1);
            lateness.push(begin.elapsed().saturating_sub(due));
            note_if_long("consumed", &job.id, due, begin.elapsed());
            queue.ack(&job.id).await;
        }
        lateness
    });
    let (_, lateness, ()) = tokio::join!(join_all(producing), join_all(consuming), meanwhile);
    let mut lateness = lateness.concat();
    lateness.sort_unstable();
    lateness
}

fn note_if_long(what: &str, id: &str, from: Duration, until: Duration) {
    if until.saturating_sub(from) > NOTABLE {
        print_figure(&format!("{id} was {what} from {from:?} to {until:?}"));
    }
}

/// Neither while three pumps find out that a primary is silent, nor when one of them stops after that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_primary_and_a_stopping_pump_delay_no_job_of_the_others() {
    let _turn = turn().await;
    let mut group = ClusterGroup::start_with(RedisOptions::new(), NO_FAILOVER_MS).await;
    let mut fleet = Fleet::start_with_lease(1, 3, &patient_settings(&group), LEASE).await;
    let silent = silent_one(&group).await;
    let queues = queues_where(&group, &fleet, QUEUES, |primary| primary != silent).await;
    until_shared(&fleet).await;
    let stopped = fleet.pumps.remove(0);
    let meanwhile = async {
        sleep(ROUND).await;
        group.pause(silent);
        // Longer than the lease, after which calls for locks are given up.
        sleep(Duration::from_secs(16)).await;
        assert!(stopped.stop(STOP_LIMIT).await.success());
    };
    let lateness = steady_lateness(&queues, meanwhile).await;
    let what = "as a primary falls silent, and one of three pumps stops";
    let latest = latest(what, &lateness);
    assert!(latest < LATE_MAX, "{latest:?}");
    assert!(fleet.all_run());
    group.resume(silent);
    drop(fleet);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pump_killed_beside_a_silent_primary_is_replaced_in_time() {
    let _turn = turn().await;
    let mut group = ClusterGroup::start_with(RedisOptions::new(), NO_FAILOVER_MS).await;
    let mut fleet = Fleet::start(1, 2, &patient_settings(&group)).await;
    let silent = silent_one(&group).await;
    let queues = queues_where(&group, &fleet, QUEUES, |primary| primary != silent).await;
    until_shared(&fleet).await;
    let killed = fleet.pumps.remove(0);
    let kill = async {
        sleep(FIRST_DUE / 2).await;
        group.pause(silent);
        // The first jobs are due while the killed pump is still on the rosters.
        sleep(FIRST_DUE / 3).await;
        killed.kill();
    };
    let lateness = lateness(&queues, kill).await;
    let what = "beside a silent primary, as one of two pumps was killed";
    let latest = latest(what, &lateness);
    assert!(latest < LATE_WHEN_ONE_STOPS_MAX, "{latest:?}");
    group.resume(silent);
    drop(fleet);
}
