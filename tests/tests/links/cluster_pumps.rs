//! Redis Cluster: pumps while a primary does not answer.

use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_core::JobId;
use tidegate_core::keys::LIMITS;
use tidegate_testkit::{
    ClusterGroup, NativeClient, QueueClient, RedisControl, RedisOptions, eventually, print_figure,
};

use crate::cluster_consumers::{NO_FAILOVER_MS, primary_without};
use crate::fleet::Fleet;
use crate::turn;

const BUCKETS: u32 = 256;
pub(crate) const QUEUES: usize = 8;
const BUSY_QUEUES: usize = 40;
/// In each of these seconds `EACH_SECOND` jobs of each queue are due.
const SECONDS: u64 = 6;
const EACH_SECOND: u64 = 5;
/// The delay of the first job.
pub(crate) const FIRST_DUE: Duration = Duration::from_secs(5);
/// Ten times the target. Half of the jobs may be later: all those of a second are, if the machine stalls when they are
/// due.
const TYPICAL_MAX: Duration = Duration::from_millis(500);
/// Less than the 3 s that a call waits for a primary that is silent. The rest is room for a busy machine.
const LATEST_MAX: Duration = Duration::from_millis(2500);
const SHARED_LIMIT: Duration = Duration::from_secs(20);
/// A slow primary answers no client for most of the time.
const SLOW_FOR: Duration = Duration::from_millis(250);
const SLOW_PAUSE: Duration = Duration::from_millis(20);
/// A pump that stops releases its buckets; those of a dead pump are free when its lease of 1 s expires. The rest is
/// room for a busy machine.
pub(crate) const LATE_WHEN_ONE_STOPS_MAX: Duration = Duration::from_millis(2900);

/// A primary that has neither the tokens nor the limits.
pub(crate) async fn silent_one(group: &ClusterGroup) -> usize {
    primary_without(group, &["tg:tokens:default/shop", LIMITS]).await
}

/// Queues whose jobs are on a wanted primary.
pub(crate) async fn queues_where(
    group: &ClusterGroup,
    fleet: &Fleet,
    count: usize,
    is_wanted: impl Fn(usize) -> bool,
) -> Vec<QueueClient> {
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

/// Makes pumps run buckets of this primary all the time: more of them than can run at once.
async fn keep_busy(queues: &[QueueClient]) {
    let publishing = queues.iter().map(|queue| async move {
        for delay_s in 2..12 {
            queue.publish("busy").delay_s(delay_s).ttl_s(600).id().await;
        }
    });
    futures_util::future::join_all(publishing).await;
}

/// Publishes jobs of the queues, some due each second, and consumes them. Returns how late they were, in order.
pub(crate) async fn lateness(
    queues: &[QueueClient],
    meanwhile: impl Future<Output = ()>,
) -> Vec<Duration> {
    let begin = Instant::now();
    for queue in queues {
        for second in 0..SECONDS {
            let bodies: Vec<String> = (0..EACH_SECOND).map(|_| second.to_string()).collect();
            let publish = queue.publish_bulk(&bodies).ttl_s(600);
            let publish = publish.delay_s(FIRST_DUE.as_secs() + second).send();
            publish.await.unwrap().expect(201);
        }
    }
    let published = begin.elapsed();
    assert!(published < FIRST_DUE / 2, "{published:?}");
    let consumers = queues
        .iter()
        .flat_map(|queue| vec![queue; EACH_SECOND as usize]);
    let consuming = consumers.map(|queue| async move {
        let queue = queue.with_separate_connections();
        let mut lateness = Vec::new();
        for _ in 0..SECONDS {
            let consume = queue.consume().timeout_s(30).ttr_s(60);
            let job = consume.job().await.expect("the job becomes ready");
            let second: u64 = String::from_utf8(job.body).unwrap().parse().unwrap();
            // `published` is the time of the last publish, so a lateness may be too small by up to that.
            let due = FIRST_DUE + Duration::from_secs(second);
            lateness.push(begin.elapsed().saturating_sub(due + published));
            queue.ack(&job.id).await;
        }
        lateness
    });
    let (lateness, ()) = tokio::join!(futures_util::future::join_all(consuming), meanwhile);
    let mut lateness = lateness.concat();
    lateness.sort_unstable();
    lateness
}

/// Prints a figure and returns the latest. `lateness` is in order.
pub(crate) fn latest(what: &str, lateness: &[Duration]) -> Duration {
    let p99 = lateness[lateness.len() * 99 / 100];
    let latest = lateness[lateness.len() - 1];
    let jobs = lateness.len();
    print_figure(&format!(
        "{what}: p99 {p99:?}, the latest of {jobs} {latest:?}"
    ));
    latest
}

/// The fault of a primary.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    /// It answers nothing.
    Silent,
    /// It answers no client for most of the time.
    Slow,
    /// Its process is killed.
    Dead,
}

async fn make(trouble: Trouble, group: &mut ClusterGroup, primary: usize) {
    match trouble {
        Trouble::Silent => group.pause(primary),
        Trouble::Dead => tokio::task::block_in_place(|| group.servers[primary].kill()),
        Trouble::Slow => {
            let mut control = RedisControl::connect(&group.url(primary)).await;
            let end = Instant::now() + FIRST_DUE + Duration::from_secs(SECONDS);
            while Instant::now() < end {
                control.pause_clients(SLOW_FOR).await;
                tokio::time::sleep(SLOW_FOR + SLOW_PAUSE).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_silent_or_dead_primary_delays_no_job_of_the_others() {
    let _turn = turn().await;
    let options = RedisOptions::new().setting("cluster-require-full-coverage", "no");
    let mut group = ClusterGroup::start_with(options, NO_FAILOVER_MS).await;
    let fleet = Fleet::start(1, 1, &group.settings()).await;
    let sick = silent_one(&group).await;
    let queues = queues_where(&group, &fleet, QUEUES, |primary| primary != sick).await;
    let busy = queues_where(&group, &fleet, BUSY_QUEUES, |primary| primary == sick).await;
    for trouble in [Trouble::Slow, Trouble::Silent, Trouble::Dead] {
        keep_busy(&busy).await;
        let making = async {
            tokio::time::sleep(FIRST_DUE / 4).await;
            make(trouble, &mut group, sick).await;
        };
        let lateness = lateness(&queues, making).await;
        let latest = latest(&format!("beside a primary that is {trouble:?}"), &lateness);
        assert!(latest < LATEST_MAX, "{trouble:?}: {latest:?}");
        let typical = lateness[lateness.len() / 2];
        assert!(typical < TYPICAL_MAX, "{trouble:?}: {typical:?}");
        if let Trouble::Silent = trouble {
            group.resume(sick);
            eventually(
                "the primary takes jobs",
                SHARED_LIMIT,
                async || match busy[0].publish("probe").send().await.unwrap().status {
                    201 => Ok(()),
                    status => Err(status),
                },
            )
            .await;
        }
    }
    drop(fleet);
}

/// The definitions of the schedules of a namespace are on one primary, their ticks on all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_without_their_definitions_delay_no_other_job() {
    const SCHEDULES: usize = 64;
    /// Each has a table of its own. All are on one primary.
    const NAMESPACES: usize = 16;
    const DELAY: Duration = Duration::from_secs(10);
    /// A run waits for a table for up to 1 s.
    const LATE_MAX: Duration = Duration::from_secs(10);
    let _turn = turn().await;
    let options = RedisOptions::new().setting("cluster-require-full-coverage", "no");
    let mut group = ClusterGroup::start_with(options, NO_FAILOVER_MS).await;
    let fleet = Fleet::start(1, 1, &group.settings()).await;
    let sick = silent_one(&group).await;
    let queues = queues_where(&group, &fleet, QUEUES, |primary| primary != sick).await;
    for namespace in namespaces_on(&group, sick, NAMESPACES).await {
        let client = NativeClient::new(&fleet.apis[0], &namespace).await;
        for number in 0..SCHEDULES / NAMESPACES {
            let schedule =
                json!({"queue": format!("q{number}"), "every": "1s", "job": {"payload": 1}});
            let path = format!("/schedules/s{number}");
            client.call("PUT", &path, &schedule).await.expect(201);
        }
    }
    for trouble in [Trouble::Silent, Trouble::Dead] {
        for queue in &queues {
            let publish = queue.publish("x").delay_s(DELAY.as_secs()).ttl_s(600);
            publish.id().await;
        }
        let due_at = Instant::now() + DELAY;
        make(trouble, &mut group, sick).await;
        for queue in &queues {
            let consume = queue.consume().timeout_s(120).ttr_s(60);
            let job = consume.job().await.expect("the job becomes ready");
            queue.ack(&job.id).await;
        }
        let late = Instant::now().saturating_duration_since(due_at);
        print_figure(&format!(
            "the table is on a primary that is {trouble:?}: all jobs within {late:?}"
        ));
        assert!(late < LATE_MAX, "{trouble:?}: {late:?}");
        if let Trouble::Silent = trouble {
            group.resume(sick);
        }
    }
}

/// Namespaces whose tables of schedules are on this primary.
async fn namespaces_on(group: &ClusterGroup, primary: usize, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    for number in 0.. {
        let namespace = format!("plan-{number}");
        let slot = group.slot_of(&format!("tg:schedules:{namespace}")).await;
        if group.owner_of(slot).await == primary {
            found.push(namespace);
        }
        if found.len() == count {
            break;
        }
    }
    found
}

/// A primary refuses one of two pumps, and accepts the other one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pump_that_cannot_reach_a_primary_leaves_its_buckets_to_another_pump() {
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
    let lateness = lateness(&queues, refuse).await;
    let latest = latest("where one of two pumps is refused by a primary", &lateness);
    assert!(latest < LATE_WHEN_ONE_STOPS_MAX, "{latest:?}");
    assert!(refused.all_run() && fleet.all_run());
    group.check_consistency().await;
}
