//! Redis Cluster: all verbs, and settings that are refused.

use std::time::Duration;

use tidegate_testkit::certificates::write_text;
use tidegate_testkit::cluster_group::PASSWORD;
use tidegate_testkit::{
    ClusterGroup, DaemonProgram, RedisOptions, run_until_exit, run_with_settings,
};

use crate::fleet::{Fleet, live_through};
use crate::turn;

const EXAMPLE: &str = include_str!("../../../deploy/redis/users.acl");
const LIMIT: Duration = Duration::from_secs(20);
/// Enough for each primary to have some of them.
const QUEUES: usize = 24;

/// Lets a consumer wait at one API for a job that is published, with a delay, at the other one.
async fn wake_everywhere(fleet: &Fleet) {
    let mut waiting = Vec::new();
    let mut queues = Vec::new();
    for number in 0..QUEUES {
        let queue = fleet.queue(&format!("wake-{number}")).await;
        let there = queue.on_api(&fleet.apis[1]).with_separate_connections();
        let job = async move { there.consume().timeout_s(30).ttr_s(60).job().await };
        waiting.push(tokio::spawn(job));
        queues.push(queue);
    }
    fleet.apis[1].wait_for_waiting_consumers(QUEUES).await;
    for (queue, waiting) in queues.iter().zip(waiting) {
        let id = queue.publish("due").delay_s(1).id().await;
        let job = waiting.await.unwrap().unwrap();
        assert_eq!(job.id, id);
        queue.ack(&id).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_verbs_work_on_a_cluster() {
    let _turn = turn().await;
    let group = ClusterGroup::start().await;
    let fleet = Fleet::start(2, 2, &group.settings()).await;
    live_through(&fleet).await;
    wake_everywhere(&fleet).await;
    group.check_consistency().await;
    let logs = fleet.logs();
    assert!(!logs.contains("WARN") && !logs.contains("sesame"), "{logs}");
    for primary in group.primaries().await {
        let jobs = group.calls(primary, "evalsha").await;
        assert!(jobs > 0, "server {primary} had no work");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_of_the_example_are_sufficient_on_a_cluster() {
    let _turn = turn().await;
    let group = ClusterGroup::start().await;
    let rule = EXAMPLE.strip_prefix("user ").unwrap().trim();
    for server in 0..group.servers.len() {
        group.add_user(server, rule).await;
    }
    let user = "username = \"tidegate\"\npassword = \"CHANGE-ME\"";
    let pool = group
        .settings()
        .replace(&format!("password = \"{PASSWORD}\""), user);
    let fleet = Fleet::start(2, 1, &pool).await;
    live_through(&fleet).await;
    let logs = fleet.logs();
    assert!(
        !logs.contains("forbidden") && !logs.contains("WARN"),
        "{logs}"
    );
    // The user lacks a right on one node only.
    group
        .add_user(1, &rule.replace(" +cluster|slots ", " "))
        .await;
    let message = refused(&pool).await;
    assert!(
        message.contains("CLUSTER") && message.contains("users.acl"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wrong_kind_of_server_is_refused_with_the_remedy() {
    let _turn = turn().await;
    let group = ClusterGroup::start().await;
    let node = format!("url = \"{}\"", group.url(0));
    let message = refused(&node).await;
    assert!(message.contains("with the key cluster"), "{message}");
    let alone = RedisOptions::new().start();
    let message = refused(&format!("cluster = \"{}\"", alone.url())).await;
    assert!(message.contains("name it with url"), "{message}");
    let message = refused(&group.settings().replace(PASSWORD, "wrong")).await;
    assert!(message.contains("users.acl"), "{message}");
}

/// The log of an API that refuses these settings.
async fn refused(pool: &str) -> String {
    let settings = format!("[pool.default]\n{pool}\n");
    let ended = run_with_settings(DaemonProgram::Api, &settings, &[], LIMIT).await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(!ended.log.contains("sesame"), "{}", ended.log);
    ended.log
}

/// A node that has left the cluster still answers, and has no slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_and_audits_start_if_one_named_node_is_in_the_cluster() {
    let _turn = turn().await;
    let group = ClusterGroup::start().await;
    let primaries = group.primaries().await;
    let others = (0..group.servers.len()).filter(|server| !primaries.contains(server));
    let left: Vec<usize> = others.collect();
    for server in &left {
        group.remove_replica(*server).await;
    }
    let stays = primaries.last().copied().unwrap();
    let named: Vec<String> = left
        .iter()
        .chain([&stays])
        .map(|server| group.servers[*server].url())
        .collect();
    let pool = format!("cluster = {named:?}\npassword = \"{PASSWORD}\"\n");
    for _ in 0..3 {
        let fleet = Fleet::start(1, 1, &pool).await;
        let logs = fleet.logs();
        assert!(!logs.contains("waiting for redis"), "{logs}");
        fleet.queue("q").await.publish("x").id().await;
        let folder = tempfile::tempdir().unwrap();
        let config = write_text(
            folder.path(),
            "settings.toml",
            &format!("[pool.default]\n{pool}"),
        );
        let arguments = ["audit", "--config", config.to_str().unwrap()];
        let ended = run_until_exit(DaemonProgram::Pumpd, &arguments, LIMIT).await;
        assert_eq!(ended.code, Some(0), "{}", ended.log);
    }
}
