//! Redis Cluster: pumps while a primary does not answer.

use std::time::{Duration, Instant};

use tidegate_core::JobId;
use tidegate_core::keys::{LIMITS, ROSTER};
use tidegate_testkit::{ClusterGroup, Queue, RedisOptions, eventually, figure};

use crate::cluster_consumers::{NO_FAILOVER_MS, primary_without};
use crate::fleet::Fleet;
use crate::turn;

const BUCKETS: u32 = 256;
const QUEUES: usize = 8;
const BUSY_QUEUES: usize = 40;
const JOBS: u64 = 6;
/// When the first job is due, after it was published.
const FIRST_DUE: Duration = Duration::from_secs(5);
/// Ten times what is aimed at.
const LATE_MAX: Duration = Duration::from_millis(500);
/// More than a pump may take to stop.
const STOP_LIMIT: Duration = Duration::from_secs(15);
const SHARED_LIMIT: Duration = Duration::from_secs(20);
/// A pump that stops hands its buckets over, one that dies leaves them when its lease of 1 s is over.
const LATE_WHEN_ONE_STOPS_MAX: Duration = Duration::from_secs(2);

/// A primary that has neither the tokens, nor the limits, nor the roster of the pumps.
pub(crate) async fn silent_one(group: &ClusterGroup) -> usize {
    primary_without(group, &["tg:tokens:default/shop", LIMITS, ROSTER]).await
}

/// Queues whose jobs are on a primary of this kind.
pub(crate) async fn queues_where(
    group: &ClusterGroup,
    fleet: &Fleet,
    count: usize,
    is_wanted: impl Fn(usize) -> bool,
) -> Vec<Queue> {
    let mut queues = Vec::new();
    for number in 0.. {
        let queue = fleet.queue(&format!("orders-{number}")).await;
        let id = queue.publish("probe").id().await;
        queue.ack(&id).await;
        let id: JobId = id.parse().expect("an id");
        let slot = group.slot_of_bucket(id.bucket(), BUCKETS).await;
        if is_wanted(group.owner_of(slot).await) {
            queues.push(queue);
        }
        if queues.len() == count {
            break;
        }
    }
    queues
}

/// Has buckets of the silent primary run by their pumps all the time: more than there are places for runs.
async fn keep_busy(queues: &[Queue]) {
    let publishing = queues.iter().map(|queue| async move {
        for delay_s in 2..12 {
            queue.publish("busy").delay_s(delay_s).ttl_s(600).id().await;
        }
    });
    futures_util::future::join_all(publishing).await;
}

/// Publishes jobs of the queues, one due each second, and consumes them. Answers how late the latest was.
async fn latest(queues: &[Queue], meanwhile: impl Future<Output = ()>) -> Duration {
    let begin = Instant::now();
    for queue in queues {
        for number in 0..JOBS {
            let delay_s = FIRST_DUE.as_secs() + number;
            let publish = queue.publish(number.to_string()).delay_s(delay_s);
            publish.ttl_s(600).id().await;
        }
    }
    let published = begin.elapsed();
    assert!(published < FIRST_DUE / 2, "{published:?}");
    let consuming = queues.iter().map(|queue| async move {
        let mut latest = Duration::ZERO;
        for _ in 0..JOBS {
            let consume = queue.apart().consume().timeout_s(30).ttr_s(60);
            let job = consume.job().await.expect("the job becomes ready");
            let number: u64 = String::from_utf8(job.body).unwrap().parse().unwrap();
            // Published after the beginning: what is measured is too much, if anything.
            let due = FIRST_DUE + Duration::from_secs(number);
            latest = latest.max(begin.elapsed().saturating_sub(due + published));
        }
        latest
    });
    let (latest, ()) = tokio::join!(futures_util::future::join_all(consuming), meanwhile);
    latest.into_iter().max().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_primary_makes_no_job_of_another_one_late() {
    let _turn = turn().await;
    let mut group = ClusterGroup::start_with(RedisOptions::new(), NO_FAILOVER_MS).await;
    let fleet = Fleet::start(1, 1, &group.settings()).await;
    let silent = silent_one(&group).await;
    let queues = queues_where(&group, &fleet, QUEUES, |primary| primary != silent).await;
    let busy = queues_where(&group, &fleet, BUSY_QUEUES, |primary| primary == silent).await;
    keep_busy(&busy).await;
    let silence = async {
        tokio::time::sleep(FIRST_DUE / 4).await;
        group.pause(silent);
    };
    let latest = latest(&queues, silence).await;
    figure(&format!(
        "beside a silent primary the latest job came {latest:?} after it was due"
    ));
    assert!(latest < LATE_MAX, "{latest:?}");
    group.resume(silent);
    drop(fleet);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pump_that_stops_beside_a_silent_primary_hands_the_other_buckets_over() {
    let _turn = turn().await;
    let mut group = ClusterGroup::start_with(RedisOptions::new(), NO_FAILOVER_MS).await;
    let mut fleet = Fleet::start(1, 3, &group.settings()).await;
    let silent = silent_one(&group).await;
    let queues = queues_where(&group, &fleet, QUEUES, |primary| primary != silent).await;
    let stopped = fleet.pumps.remove(0);
    let stop = async {
        tokio::time::sleep(FIRST_DUE / 2).await;
        group.pause(silent);
        tokio::time::sleep(FIRST_DUE / 4).await;
        stopped.stop(STOP_LIMIT).await;
    };
    let latest = latest(&queues, stop).await;
    figure(&format!(
        "beside a silent primary, as one of three pumps stopped, the latest job came {latest:?} after it was due"
    ));
    assert!(latest < LATE_WHEN_ONE_STOPS_MAX, "{latest:?}");
    group.resume(silent);
    drop(fleet);
}

/// One of two pumps is refused by a primary, which the other one reaches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pump_that_cannot_reach_a_primary_leaves_its_buckets_to_another_one() {
    const RULE: &str = "refused on >secret ~* &* +@all";
    let _turn = turn().await;
    let group = ClusterGroup::start_with(RedisOptions::new(), NO_FAILOVER_MS).await;
    for server in 0..group.servers.len() {
        group.add_user(server, RULE).await;
    }
    let fleet = Fleet::start(1, 1, &group.settings()).await;
    let user = "username = \"refused\"\npassword = \"secret\"\n";
    let settings = group.settings();
    let others = settings
        .lines()
        .filter(|line| !line.starts_with("password"));
    let pool = others.fold(user.to_owned(), |pool, line| format!("{pool}{line}\n"));
    let refused = Fleet::start(0, 1, &pool).await;
    eventually("each pump has its share", SHARED_LIMIT, async || {
        let held = refused.pumps[0].metric("tidegate_pump_buckets_held").await;
        if held == f64::from(BUCKETS) / 2.0 {
            Ok(())
        } else {
            Err(held)
        }
    })
    .await;
    let primary = silent_one(&group).await;
    let queues = queues_where(&group, &fleet, QUEUES, |it| it == primary).await;
    let refuse = async {
        tokio::time::sleep(FIRST_DUE / 4).await;
        group.add_user(primary, "refused -@all").await;
    };
    let latest = latest(&queues, refuse).await;
    figure(&format!(
        "where one of two pumps is refused by a primary the latest job came {latest:?} after it was due"
    ));
    assert!(latest < LATE_WHEN_ONE_STOPS_MAX, "{latest:?}");
    assert!(refused.all_run() && fleet.all_run());
    group.check_world().await;
}
