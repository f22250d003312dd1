//! How a live pump keeps its membership and its locks.

use std::time::{Duration, Instant};

use tidegate_core::keys::DeploymentKeys;
use tidegate_core::placement;
use tidegate_store::{Alarm, LeaseOutcome, Store, StoreConfig};
use tidegate_testkit::{Stack, eventually};

const BUCKETS: u16 = 256;
const LEASE: Duration = Duration::from_secs(3);
/// A pump renews its membership when a third of the lease has passed. The rest is for busy machines.
const LEFT_MIN_MS: f64 = 500.0;

fn connection(stack: &Stack) -> redis::Connection {
    let client = redis::Client::open(stack.redis.url()).unwrap();
    client.get_connection().unwrap()
}

/// How long the shortest membership on the roster has left, in ms; none if no pump is on it.
pub(crate) fn shortest_membership_ms(redis: &mut redis::Connection) -> Option<f64> {
    let roster = placement::roster_bucket(0..BUCKETS).unwrap();
    let (seconds, micros): (f64, f64) = redis::cmd("TIME").query(redis).unwrap();
    let ends: Vec<(String, f64)> = redis::cmd("ZRANGE")
        .arg(DeploymentKeys::new(BUCKETS.into()).keys(roster).roster())
        .arg(0)
        .arg(-1)
        .arg("WITHSCORES")
        .query(redis)
        .unwrap();
    // The member without a name is the clock of the roster.
    let ends = ends.iter().filter(|(instance, _)| !instance.is_empty());
    let end = ends.map(|(_, end)| *end).reduce(f64::min);
    Some(end? - seconds * 1000.0 - micros / 1000.0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_pump_renews_its_membership_long_before_it_expires() {
    let stack = Stack::builder().lease("3s").start().await;
    stack.pump(0).wait_for_buckets(BUCKETS).await;
    let mut redis = connection(&stack);
    let begin = Instant::now();
    while begin.elapsed() < 3 * LEASE {
        let left_ms = shortest_membership_ms(&mut redis).unwrap_or(0.0);
        assert!(left_ms > LEFT_MIN_MS, "{left_ms} ms");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stack.finish().await;
}

/// With slots of 1 s a job that is due in 6 s is in a far slot, which only the pump loads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pump_loads_far_timers_in_time() {
    const NARROW: &str = "[pool.default]\nslot_ms = 1000";
    const DELAY_S: u64 = 6;
    let stack = Stack::builder().api_config(NARROW).pump_config(NARROW);
    let stack = stack.start().await;
    let queue = stack.queue("q").await;
    let id = queue.publish("x").delay_s(DELAY_S).id().await;
    let begin = Instant::now();
    let job = queue.consume().timeout_s(30).job().await;
    assert_eq!(job.expect("the job becomes ready").id, id);
    let late = begin.elapsed().saturating_sub(Duration::from_secs(DELAY_S));
    assert!(late < Duration::from_secs(10), "{late:?}");
    queue.ack(&id).await;
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pump_reacquires_lost_locks() {
    let stack = Stack::builder().start().await;
    stack.pump(0).wait_for_buckets(BUCKETS).await;
    let mut redis = connection(&stack);
    let buckets = DeploymentKeys::new(BUCKETS.into());
    for bucket in 0..BUCKETS {
        let mut set = redis::cmd("SET");
        set.arg(buckets.keys(bucket).lock())
            .arg("a pump that is gone");
        set.exec(&mut redis).unwrap();
    }
    let queue = stack.queue("q").await;
    let id = queue.publish("x").delay_s(1).id().await;
    let job = queue.consume().timeout_s(15).ttr_s(60).job().await;
    assert_eq!(job.expect("the job becomes ready").id, id);
    stack.finish().await;
}

/// A pump that does not know yet that another one joined takes its locks, and releases them when it knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pump_asks_again_for_locks_that_were_taken_with_an_old_roster() {
    const TAKEN: u16 = 4;
    let stack = Stack::builder().start().await;
    stack.pump(0).wait_for_buckets(BUCKETS).await;
    // The first run of each bucket is over, and no other call for it comes soon.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let config = StoreConfig::new(stack.redis.url());
    let store = Store::connect(&config).await.unwrap();
    let living = ["early".to_owned()];
    for bucket in 0..TAKEN {
        let taken = store.lease_acquire(bucket, "early", &living).await;
        assert_eq!(taken.unwrap(), LeaseOutcome::Ours);
    }
    for bucket in 0..TAKEN {
        store.lease_release(bucket, "early").await.unwrap();
    }
    let mut redis = connection(&stack);
    let buckets = DeploymentKeys::new(BUCKETS.into());
    let mut held = async || {
        let locks = (0..BUCKETS).map(|bucket| buckets.keys(bucket).lock());
        let holders = redis::cmd("MGET")
            .arg(Vec::from_iter(locks))
            .query(&mut redis);
        let holders: Vec<Option<String>> = holders.unwrap();
        match holders.iter().flatten().count() {
            256 => Ok(()),
            held => Err(held),
        }
    };
    eventually("all locks are held", Duration::from_secs(20), &mut held).await;
    stack.finish().await;
}

/// Two pumps that do not know each other take a lock from each other until one of them has read the roster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pump_pauses_before_it_takes_a_lock_back() {
    const TIME: Duration = Duration::from_secs(2);
    /// Ten times as often as with pauses of 50 ms.
    const TAKEN_MAX: usize = 400;
    let stack = Stack::builder().start().await;
    stack.pump(0).wait_for_buckets(BUCKETS).await;
    let store = Store::connect(&StoreConfig::new(stack.redis.url())).await;
    let store = store.unwrap();
    let living = ["rival".to_owned()];
    let take = async || {
        let taken = store.lease_acquire(0, "rival", &living).await;
        assert_eq!(taken.unwrap(), LeaseOutcome::Ours);
    };
    let mut alarms = store.alarms();
    while alarms.next().await != Some(Alarm::Resubscribed) {}
    take().await;
    let (mut taken, until) = (1, Instant::now() + TIME);
    while let Ok(alarm) = tokio::time::timeout_at(until.into(), alarms.next()).await {
        if matches!(alarm, Some(Alarm::LockTaken { from, .. }) if from == "rival") {
            take().await;
            taken += 1;
        }
    }
    assert!((2..TAKEN_MAX).contains(&taken), "{taken}");
    store.lease_release(0, "rival").await.unwrap();
    stack.finish().await;
}
