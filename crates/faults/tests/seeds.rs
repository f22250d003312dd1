//! The short form: six runs that try each class of fault once, and the harness itself with them.

use std::path::Path;

use tidegate_faults::fault::Fault;
use tidegate_faults::plan::Deployment;
use tidegate_faults::report::read;
use tidegate_faults::{Class, Plan, Wishes, run, yardstick};
use tidegate_testkit::figure;

/// Between two faults.
const PAUSE_MS: u64 = 700;

/// Makes a run of this seed, with each of these faults once, and expects that nothing is found. It has a second Redis if
/// the pool is to move.
async fn expect_nothing(seed: u64, deployment: Deployment, classes: &[Class]) {
    let wishes = Wishes {
        deployment: Some(deployment),
        classes: classes.to_vec(),
        ..Wishes::default()
    };
    let drawn = (seed..).zip(classes);
    let once = drawn.map(|(seed, class)| Fault {
        after_ms: PAUSE_MS,
        ..Fault::draw(seed, *class)
    });
    let plan = Plan {
        faults: once.collect(),
        ..Plan::draw(seed, &wishes)
    };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let baseline = yardstick(kept, deployment).await;
    let baseline = baseline.expect("a yardstick run can be kept");
    let report = run(&plan, folder.path(), &baseline, |_| {}).await;
    report
        .write(folder.path())
        .expect("a report can be written");
    figure(&report.table());
    let again = read(&folder.path().join("history.jsonl")).expect("a history can be read");
    assert_eq!(again.verdict.counts, report.verdict.counts);
    assert!(report.verdict.counts.delivered > 100, "hardly a job passed");
    if !report.is_good() {
        panic!("everything of it is kept in {}", folder.keep().display());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_and_connections_end() {
    let classes = [
        Class::Lanes,
        Class::ApiKill,
        Class::NetCut,
        Class::RedisKill,
        Class::PumpKill,
        Class::NetReplies,
        Class::ClientCut,
        Class::Upgrade,
    ];
    expect_nothing(1, Deployment::Always, &classes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_full_forgets_and_stands_still() {
    let classes = [
        Class::MemoryFull,
        Class::ScriptFlush,
        Class::DiskFull,
        Class::Clock,
        Class::RedisBusy,
        Class::Subscriptions,
        Class::RedisPause,
    ];
    expect_nothing(2, Deployment::EverySecond, &classes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn networks_and_daemons_stand_still() {
    let classes = [
        Class::NetDelay,
        Class::NetSilence,
        Class::ApiPause,
        Class::NetStall,
        Class::PumpPause,
        Class::LoginRefused,
    ];
    expect_nothing(3, Deployment::Always, &classes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_master_changes_and_machines_have_limits() {
    let classes = [
        Class::Failover,
        Class::FewFiles,
        Class::LogUnread,
        Class::IdleTimeout,
    ];
    expect_nothing(4, Deployment::Sentinels, &classes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn primaries_of_a_cluster_change_or_are_away_and_slots_move() {
    let classes = [
        Class::ShardAway,
        Class::TokensAway,
        Class::PumpCutOff,
        Class::Lanes,
        Class::Failover,
        Class::Reshard,
        Class::NetReplies,
        Class::MemoryFull,
        Class::Subscriptions,
    ];
    expect_nothing(5, Deployment::Cluster, &classes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_moves_tokens_are_revoked_and_redis_loads() {
    let classes = [
        Class::PoolMove,
        Class::Revocation,
        Class::RedisLoading,
        Class::LanesRace,
        Class::RedisClock,
    ];
    expect_nothing(6, Deployment::Always, &classes).await;
}
