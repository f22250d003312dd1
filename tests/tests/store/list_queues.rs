//! Listing the queues of a deployment.

use std::collections::BTreeMap;

use tidegate_core::{JobsByState, QueueKey};
use tidegate_store::{ListedQueue, QueuePosition, Store, StoreConfig};
use tidegate_testkit::{RedisOptions, print_figure};

use crate::fixture::{LIMIT, START, StoreFixture, all_queues, delayed, fixture, job};

fn key(name: &str) -> QueueKey {
    QueueKey::try_from(name).unwrap()
}

async fn listed(f: &StoreFixture, now_ms: u64) -> BTreeMap<String, ListedQueue> {
    let all = all_queues(&f.store.at(now_ms)).await;
    let count = all.len();
    let by_name: BTreeMap<String, ListedQueue> = all
        .into_iter()
        .map(|listed| (listed.queue.to_string(), listed))
        .collect();
    assert_eq!(by_name.len(), count, "each queue once");
    by_name
}

#[tokio::test]
async fn counts_are_exact_and_the_age_is_that_of_the_next_job() {
    let f = fixture().await;
    f.move_due(START).await;
    assert!(listed(&f, START).await.is_empty());
    for _ in 0..3 {
        f.publish(START, job("ready")).await;
    }
    f.publish(START, delayed("later", 50_000)).await;
    f.publish(START + 500, job("ready")).await;
    f.expect(START + 600, &["ready", "ready", "ready", "ready"])
        .await;
    // Their leases of a second end; with one try each they die.
    assert_eq!(f.move_due(START + 2_000).await.buried, 4);
    f.publish(START + 2_100, job("oldest")).await;
    f.publish(START + 2_200, job("younger")).await;
    let all = listed(&f, START + 2_350).await;
    let expected = JobsByState {
        delayed: 1,
        ready: 2,
        leased: 0,
        dead: 4,
        done: 0,
    };
    assert_eq!(all["shop/orders"].stats, expected);
    assert_eq!(
        all["shop/orders"].stats,
        f.store.stats(&f.queue).await.unwrap()
    );
    assert_eq!(all["shop/orders"].oldest_ready_ms, Some(250));
    f.reserve(START + 2_400, 2, 1000).await;
    let all = listed(&f, START + 2_400).await;
    assert_eq!(all["shop/orders"].stats.leased, 2);
    assert_eq!(all["shop/orders"].oldest_ready_ms, None);
}

#[tokio::test]
async fn stale_and_expired_hints_at_the_head_do_not_count_as_the_oldest() {
    let f = fixture().await;
    f.move_due(START).await;
    let cancelled = f.publish(START, job("cancelled")).await;
    let mut short = job("expires");
    short.ttl_ms = 100;
    f.publish(START, short).await;
    f.publish(START + 50, job("live")).await;
    let _ = f
        .store
        .cancel(&f.queue, cancelled, tidegate_core::IfRunning::Refuse)
        .await
        .unwrap();
    let all = listed(&f, START + 350).await;
    assert_eq!(all["shop/orders"].oldest_ready_ms, Some(300));
    // Behind more stale hints than one call reads no age is reported.
    let mut ids = vec![];
    for _ in 0..20 {
        ids.push(f.publish(START + 400, job("x")).await);
    }
    f.reserve(START + 400, 1, 60_000).await;
    for id in &ids[..19] {
        let _ = f
            .store
            .cancel(&f.queue, *id, tidegate_core::IfRunning::Refuse)
            .await
            .unwrap();
    }
    let all = listed(&f, START + 500).await;
    assert_eq!(all["shop/orders"].stats.ready, 1);
    assert_eq!(all["shop/orders"].oldest_ready_ms, None);
}

#[tokio::test]
async fn a_timer_that_no_pump_has_moved_is_overdue() {
    const FAR_MS: u64 = 3_600_000;
    let f = fixture().await;
    let overdue_ms = async |now_ms| {
        let page = f
            .store
            .at(now_ms)
            .list_queues(0, QueuePosition::default())
            .await;
        page.unwrap().overdue_ms
    };
    f.publish(START, delayed("near", 1000)).await;
    f.publish(START, delayed("far", FAR_MS)).await;
    assert_eq!(overdue_ms(START + 1000).await, 0);
    assert_eq!(overdue_ms(START + 2500).await, 1500);
    f.move_due(START + 2500).await;
    assert_eq!(overdue_ms(START + 2500).await, 0);
    let at_its_time = overdue_ms(START + FAR_MS).await;
    assert!(at_its_time > 0, "its slot was not loaded");
}

#[tokio::test]
async fn many_queues_are_listed_in_bounded_and_cheap_pages() {
    const QUEUES: usize = 350;
    let f = fixture().await;
    f.move_due(START).await;
    for number in 0..QUEUES {
        let queue = key(&format!("shop/q{number}"));
        let jobs: Vec<_> = (0..6).map(|_| job("x")).collect();
        let store = f.store.at(START);
        let ids = store.publish(&queue, &jobs, None).await.unwrap();
        // Every hint that a call reads is stale, which is the most expensive case.
        for id in &ids[..5] {
            let _ = f
                .store
                .cancel(&queue, *id, tidegate_core::IfRunning::Refuse)
                .await
                .unwrap();
        }
    }
    let first = f
        .store
        .list_queues(0, QueuePosition::default())
        .await
        .unwrap();
    // Each queue is read with 4 hints, and one of the entries is the last queue number.
    assert!(
        (9..=10).contains(&first.queues.len()),
        "{}",
        first.queues.len()
    );
    let second = f.store.list_queues(0, first.next.unwrap()).await.unwrap();
    assert!(!second.queues.contains(&first.queues[0]));
    assert_eq!(listed(&f, START).await.len(), QUEUES);
    let mut connection = f.connection();
    let mut redis = |command: &[&str]| -> String {
        redis::cmd(command[0])
            .arg(&command[1..])
            .query(&mut connection)
            .unwrap()
    };
    redis(&["CONFIG", "RESETSTAT"]);
    for _ in 0..20 {
        f.store
            .list_queues(0, QueuePosition::default())
            .await
            .unwrap();
    }
    let stats = redis(&["INFO", "commandstats"]);
    let line = stats
        .lines()
        .find(|line| line.starts_with("cmdstat_evalsha:"));
    let spent = line.and_then(|line| line.split("usec_per_call=").nth(1)?.split(',').next());
    let spent_us: f64 = spent.unwrap().parse().unwrap();
    print_figure(&format!(
        "list_queues holds Redis for {spent_us:.0} µs a call of 10 queues with stale heads"
    ));
    assert!(spent_us < 10_000.0, "{spent_us} µs");
}

#[tokio::test]
async fn queues_of_all_buckets_are_listed() {
    let redis = RedisOptions::new().start();
    let store = Store::connect(&StoreConfig::new(redis.url()))
        .await
        .unwrap();
    let names: Vec<String> = (0..60).map(|number| format!("ns/q{number}")).collect();
    for name in &names {
        store.publish(&key(name), &[job("x")], None).await.unwrap();
    }
    let mut found: Vec<String> = all_queues(&store)
        .await
        .into_iter()
        .map(|listed| listed.queue.to_string())
        .collect();
    found.sort();
    let mut expected = names;
    expected.sort();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_queue_purged_of_its_last_job_is_removed_until_the_next_publish() {
    let f = fixture().await;
    f.move_due(START).await;
    f.publish(START, job("a")).await;
    f.publish(START, delayed("b", 5_000)).await;
    assert_eq!(f.store.purge_ready(&f.queue).await.unwrap(), 1);
    assert_eq!(listed(&f, START).await["shop/orders"].stats.delayed, 1);
    f.move_due(START + 5_000).await;
    assert_eq!(f.store.purge_ready(&f.queue).await.unwrap(), 1);
    assert!(listed(&f, START).await.is_empty());
    assert_eq!(f.keys_of_jobs(), Vec::<String>::new());
    // No key of the queue is left, and verbs work without one.
    assert_eq!(f.counts().await, [0, 0, 0, 0]);
    assert_eq!(f.store.purge_ready(&f.queue).await.unwrap(), 0);
    f.publish(START + 6_000, job("c")).await;
    f.expect(START + 6_000, &["c"]).await;
    assert_eq!(listed(&f, START).await["shop/orders"].stats.leased, 1);
    // An empty queue is removed as well.
    f.move_due(START + 60_000).await;
    assert_eq!(f.store.purge_dead(&f.queue, 1).await.unwrap(), 1);
    assert_eq!(listed(&f, START).await.len(), 1);
    assert_eq!(f.store.purge_ready(&f.queue).await.unwrap(), 0);
    assert!(listed(&f, START).await.is_empty());
}

#[tokio::test]
async fn the_figures_of_the_server_are_read() {
    let f = fixture().await;
    let before = f.store.server_figures(LIMIT).await.unwrap();
    assert!(before.used_mem_bytes > 0 && before.connections >= 1);
    let mut connection = f.connection();
    let mut set = redis::cmd("SET");
    set.arg("other").arg(1).arg("EX").arg(1000);
    let _: () = set.query(&mut connection).unwrap();
    let after = f.store.server_figures(LIMIT).await.unwrap();
    assert_eq!(after.total_keys, before.total_keys + 1);
    assert_eq!(after.total_ttl_keys, before.total_ttl_keys + 1);
}
