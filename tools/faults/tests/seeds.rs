//! Short fault runs: six runs that inject each class of fault once. They also test the harness. They run beside each
//! other and so do not judge lateness; long runs do (`cargo xtask faults`), and the suite `timing` of `tests`.

use tidegate_faults::deployment::Deployment;
use tidegate_faults::fault::PlannedFault;
use tidegate_faults::history::Wire;
use tidegate_faults::report::read;
use tidegate_faults::{Baseline, Class, Plan, PlanOptions, run};
use tidegate_testkit::print_figure;
use tokio::sync::Semaphore;

/// Pause between two faults.
const PAUSE_MS: u64 = 700;
/// Runs at a time: each is a whole deployment under load, and waits for a part of its time. On two processors six runs
/// take 142 s with three at a time, and 177 s with two.
static RUNS: Semaphore = Semaphore::const_new(3);

/// Makes a run with this seed and each of these classes once, and expects no findings. It has a second Redis if
/// `pool-move` is among them.
async fn expect_no_findings(seed: u64, deployment: Deployment, classes: &[Class]) {
    let options = PlanOptions {
        deployment: Some(deployment),
        classes: classes.to_vec(),
        ..PlanOptions::default()
    };
    let drawn = (seed..).zip(classes);
    let once = drawn.map(|(seed, class)| PlannedFault {
        after_ms: PAUSE_MS,
        ..PlannedFault::draw(seed, *class)
    });
    let plan = Plan {
        faults: once.collect(),
        ..Plan::draw(seed, &options)
    };
    let _turn = RUNS.acquire().await.expect("it is never closed");
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let report = run(&plan, folder.path(), &Baseline::UNMEASURED, |_| {}).await;
    report
        .write(folder.path())
        .expect("a report can be written");
    print_figure(&report.table());
    let again = read(&folder.path().join("history.jsonl")).expect("a history can be read");
    assert_eq!(again.verdict.counts, report.verdict.counts);
    assert!(
        report.verdict.counts.delivered > 100,
        "too few jobs were delivered"
    );
    assert!(
        report.carried_out(Wire::Native)["reserve"] > 20,
        "too few native jobs were delivered"
    );
    for held in &report.history.held {
        assert!(
            report.deliveries_from(held.queue) > 20,
            "too few jobs of a queue were delivered whose jobs wait"
        );
    }
    if !report.has_no_findings() {
        panic!("the results are in {}", folder.keep().display());
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
        Class::EndpointSwitch,
        Class::Upgrade,
    ];
    expect_no_findings(1, Deployment::Always, &classes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_full_flushed_and_paused() {
    let classes = [
        Class::MemoryFull,
        Class::MemoryInUse,
        Class::ScriptFlush,
        Class::DiskFull,
        Class::Clock,
        Class::RedisBusy,
        Class::Subscriptions,
        Class::RedisPause,
    ];
    expect_no_findings(2, Deployment::EverySecond, &classes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn networks_stall_and_daemons_pause() {
    let classes = [
        Class::NetDelay,
        Class::NetSilence,
        Class::ApiPause,
        Class::NetStall,
        Class::PumpPause,
        Class::LoginRefused,
    ];
    expect_no_findings(3, Deployment::Always, &classes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_master_changes_and_machines_have_limits() {
    let classes = [
        Class::Failover,
        Class::FewFiles,
        Class::LogUnread,
        Class::TenantFlood,
        Class::IdleTimeout,
    ];
    expect_no_findings(4, Deployment::Sentinels, &classes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn primaries_of_a_cluster_fail_over_or_are_unavailable_and_slots_move() {
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
    expect_no_findings(5, Deployment::Cluster, &classes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_moves_tokens_are_revoked_and_redis_loads() {
    let classes = [
        Class::PoolMove,
        Class::Revocation,
        Class::RedisLoading,
        Class::StartWhileLoading,
        Class::LanesRace,
        Class::RedisClock,
    ];
    expect_no_findings(6, Deployment::Always, &classes).await;
}
