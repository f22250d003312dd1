//! The values of metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tidegate_testkit::{
    Daemon, NativeClient, QueueClient, RawHttp, Stack, eventually, start_redis,
};

use crate::exposition::{Family, by, parse};
use crate::sizes::SIZES_AT_ONCE;

pub(crate) async fn scraped(daemon: &Daemon) -> Vec<Family> {
    parse(&daemon.metrics().await)
}

/// The value of a metric for a queue, if it has one.
pub(crate) fn of_queue(families: &[Family], name: &str, queue: &QueueClient) -> Option<f64> {
    let key = vec![queue.namespace().to_owned(), queue.name().to_owned()];
    by(families, name, &["namespace", "queue"])
        .get(&key)
        .copied()
}

#[tokio::test]
async fn jobs_that_die_by_the_report_of_a_worker_are_counted() {
    let stack = Stack::builder().start().await;
    let api = stack.api(0);
    let client = NativeClient::new(api, "ns").await;
    let jobs = json!({"jobs": [{"payload": 1}, {"payload": 2}, {"payload": 3}]});
    let published = client.call("POST", "/queues/q/jobs/batch", &jobs).await;
    published.expect(200);
    let reserve = json!({"queues": ["q"], "max_jobs": 3});
    let reserved = client.call("POST", "/reserve", &reserve).await.expect(200);
    let leases = reserved.json();
    let lease = |at: usize| leases["jobs"][at]["lease"].clone();
    let dead = async || api.metric("tidegate_jobs_dead_total").await as u64;
    assert_eq!(dead().await, 0);
    let failed = json!({"leases": [
        {"lease": lease(0), "error": "x", "dead": true},
        {"lease": lease(1), "error": "x", "dead": true},
        {"lease": lease(2), "error": "x"},
    ]});
    client.call("POST", "/fail", &failed).await.expect(200);
    assert_eq!(dead().await, 2);
    stack.finish().await;
}

#[tokio::test]
async fn jobs_that_are_deleted_by_request_are_counted_once() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "ns").await;
    let api = stack.api(0);
    let counted = async || {
        let deleted = api.metric("infra_lmstfy_redis_pool_delete_jobs").await;
        (deleted, api.metric("tidegate_jobs_acked_total").await)
    };
    let job = |key: &str| json!({"payload": 1, "key": key, "if_exists": "replace"});
    let publish = async |jobs: Vec<serde_json::Value>| {
        let jobs = json!({"jobs": jobs});
        let published = client.call("POST", "/queues/q/jobs/batch", &jobs).await;
        published.expect(200);
    };
    publish(["a", "b", "c", "d"].map(job).into()).await;
    let cancelled = client
        .call("DELETE", "/queues/q/jobs/key:a", &json!({}))
        .await;
    cancelled.expect(200);
    assert_eq!(counted().await, (1.0, 0.0));
    let act = json!({"do": "cancel", "filter": {"key_prefix": "b"}});
    let acted = client.call("POST", "/queues/q/jobs/act", &act).await;
    assert_eq!(acted.expect(200).json()["changed"], 1);
    assert_eq!(counted().await, (2.0, 0.0));
    let reserve = json!({"queues": ["q"], "max_jobs": 2});
    let reserved = client.call("POST", "/reserve", &reserve).await.expect(200);
    // Its next version waits, so the job stays.
    publish(vec![job("c")]).await;
    let lease = |at: usize| reserved.json()["jobs"][at]["lease"].clone();
    let acked = json!({"leases": [lease(0), lease(1)]});
    client.call("POST", "/ack", &acked).await.expect(200);
    assert_eq!(counted().await, (3.0, 2.0));
    stack.finish().await;
}

#[tokio::test]
async fn jobs_with_a_time_count_as_delayed_if_it_is_in_the_future() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "ns").await;
    for (job, timed, pushed) in [
        (json!({"payload": 1}), 0.0, 1.0),
        (json!({"payload": 1, "delay": "1h"}), 1.0, 1.0),
        (
            json!({"payload": 1, "run_at": "2001-01-01T00:00:00Z"}),
            1.0,
            2.0,
        ),
        (
            json!({"payload": 1, "run_at": "2201-01-01T00:00:00Z"}),
            2.0,
            2.0,
        ),
        (
            json!({"payload": 1, "run_at": "2201-01-01T00:00:00Z", "key": "k"}),
            3.0,
            2.0,
        ),
    ] {
        let jobs = json!({"jobs": [&job]});
        let published = client.call("POST", "/queues/q/jobs/batch", &jobs).await;
        published.expect(200);
        let metric = async |name: &str| {
            let name = format!("infra_lmstfy_redis_{name}");
            stack.api(0).metric(&name).await
        };
        let counted = (
            metric("timer_add_jobs").await,
            metric("queue_direct_push_jobs").await,
        );
        assert_eq!(counted, (timed, pushed), "{job}");
    }
    stack.finish().await;
}

#[tokio::test]
async fn queue_metrics_count_jobs_by_state_and_by_event() {
    let stack = Stack::builder().pump_config(SIZES_AT_ONCE).start().await;
    stack.pump(0).wait_for_buckets(256).await;
    let queue = stack.queue("q").await;
    for _ in 0..4 {
        queue.publish("ready").tries(1).id().await;
    }
    queue
        .publish_bulk(&["1".to_owned(), "2".to_owned()])
        .delay_s(1000)
        .send()
        .await
        .unwrap();
    let acked = queue.consume().ttr_s(1000).job().await.unwrap();
    queue.ack(&acked.id).await;
    queue.consume().ttr_s(1000).job().await.unwrap();
    queue.consume().ttr_s(0).job().await.unwrap();
    let dead = async || match queue.dead_size().await {
        1 => Ok(()),
        size => Err(size),
    };
    eventually("one is dead", Duration::from_secs(20), dead).await;
    let mut families = scraped(stack.api(0)).await;
    families.extend(scraped(stack.pump(0)).await);
    for (name, value) in [
        ("infra_lmstfy_redis_queue_sizes", 1.0),
        ("infra_lmstfy_redis_deadletter_sizes", 1.0),
        ("tidegate_queue_delayed_jobs", 2.0),
        ("tidegate_queue_leased_jobs", 1.0),
        ("infra_lmstfy_redis_publish_queue_jobs", 6.0),
        ("infra_lmstfy_redis_consume_queue_jobs", 3.0),
        ("infra_lmstfy_redis_job_elapsed_ms_count", 3.0),
        ("tidegate_jobs_acked_total", 1.0),
        ("infra_lmstfy_redis_job_ack_elapsed_ms_count", 1.0),
    ] {
        assert_eq!(of_queue(&families, name, &queue), Some(value), "{name}");
    }
    let oldest_s = of_queue(&families, "tidegate_queue_oldest_ready_seconds", &queue).unwrap();
    assert!((0.0..60.0).contains(&oldest_s), "{oldest_s}");
    for (name, value) in [
        ("publish_jobs", 6.0),
        ("consume_jobs", 0.0),
        ("consume_multi_jobs", 3.0),
        ("pool_add_jobs", 6.0),
        ("pool_get_jobs", 3.0),
        ("pool_delete_jobs", 1.0),
        ("timer_add_jobs", 5.0),
        ("queue_direct_push_jobs", 4.0),
        ("queue_pop_jobs", 3.0),
        ("deadletter_respawn_jobs", 0.0),
        ("timer_sizes", 3.0),
    ] {
        let name = format!("infra_lmstfy_redis_{name}");
        let found = by(&families, &name, &["pool"]);
        assert_eq!(
            found,
            [(vec!["default".to_owned()], value)].into(),
            "{name}"
        );
    }
    assert_eq!(queue.respawn(1, 60).await, 1);
    let respawned = "infra_lmstfy_redis_deadletter_respawn_jobs";
    assert_eq!(stack.api(0).metric(respawned).await, 1.0);
    assert_eq!(
        stack
            .pump(0)
            .metric("infra_lmstfy_redis_timer_due_jobs")
            .await,
        1.0
    );
    stack.finish().await;
}

#[tokio::test]
async fn waiting_consumers_are_counted_in_each_of_their_queues() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("a").await;
    let two = tokio::spawn(queue.consume_from(&["a", "b"]).timeout_s(60).send());
    let one = tokio::spawn(queue.consume().timeout_s(60).send());
    let waiting = "tidegate_queue_waiting_consumers";
    let in_line = async || {
        let families = scraped(stack.api(0)).await;
        let of = |name: &str| of_queue(&families, waiting, &queue.sibling(name));
        match (of("a"), of("b")) {
            (Some(2.0), Some(1.0)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    eventually("both consumers wait", Duration::from_secs(20), in_line).await;
    stack.api(0).wait_for_waiting_consumers(2).await;
    two.abort();
    one.abort();
    let none_waits = async || match of_queue(&scraped(stack.api(0)).await, waiting, &queue) {
        None => Ok(()),
        Some(consumers) => Err(consumers),
    };
    eventually("no consumer waits", Duration::from_secs(20), none_waits).await;
    stack.finish().await;
}

#[tokio::test]
async fn requests_are_counted_by_route_and_by_namespace_of_their_token() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("q").await;
    queue.publish("x").id().await;
    queue.consume().job().await.unwrap();
    assert_eq!(queue.consume().send().await.unwrap().status, 404);
    queue.size().await;
    queue.raw("GET", "/api/x/y/z").await.expect(404);
    let bad = QueueClient::new(&stack.api(0).url(), queue.namespace(), "q", "bad");
    bad.publish("x").send().await.unwrap().expect(401);
    let bad = QueueClient::new(&stack.api(0).url(), queue.namespace(), "q", "nowhere:bad");
    bad.publish("x").send().await.unwrap().expect(404);
    let families = scraped(stack.api(0)).await;
    let labels = ["pool", "namespace", "api", "method", "code"];
    let found = by(&families, "infra_lmstfy_http_http_codes", &labels);
    let (namespace, route) = (queue.namespace(), "/api/:namespace/:queue");
    let size = format!("{route}/size");
    let expected = [
        ["default", namespace, route, "PUT", "201"],
        ["default", namespace, route, "GET", "200"],
        ["default", namespace, route, "GET", "404"],
        // Sizes need no token, so their namespace is not counted.
        ["default", "", &size, "GET", "200"],
        ["default", "", route, "PUT", "401"],
        ["", "", route, "PUT", "404"],
        ["", "", "", "GET", "404"],
    ];
    let expected: BTreeMap<Vec<String>, f64> = expected
        .map(|row| (row.map(ToOwned::to_owned).to_vec(), 1.0))
        .into();
    assert_eq!(found, expected);
    let latencies = by(
        &families,
        "infra_lmstfy_http_latency_milliseconds_count",
        &labels[..4],
    );
    assert_eq!(latencies.len(), 3, "successes only: {latencies:?}");
    stack.finish().await;
}

#[tokio::test]
async fn calls_to_redis_are_counted_by_verb() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("q").await;
    queue.publish("x").id().await;
    queue.consume().job().await.unwrap();
    for daemon in [stack.api(0), stack.pump(0)] {
        let families = scraped(daemon).await;
        let found = by(
            &families,
            "infra_lmstfy_redis_qps",
            &["node", "command", "status"],
        );
        let node = stack.redis.url().replace("redis://", "");
        let verb = if daemon.pid() == stack.api(0).pid() {
            "publish"
        } else {
            "move_due"
        };
        let key = [node.trim_end_matches('/'), verb, "ok"].map(ToOwned::to_owned);
        assert!(
            found.get(key.as_slice()).is_some_and(|calls| *calls >= 1.0),
            "{found:?}"
        );
    }
    stack.finish().await;
}

/// Requests that arrive while a call is in flight share the next one, as long as that stays small.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attributes_count_in_the_size_of_a_call() {
    const BULKS: usize = 5;
    let tokens = start_redis();
    let admin_store = format!("[admin_store]\nurl = \"{}\"", tokens.url());
    let config = format!("[metrics]\nrefresh = \"1m\"\n{admin_store}");
    let stack = Stack::builder().api_config(&config).start().await;
    let (api, queue) = (stack.api(0), stack.queue("q").await);
    let calls = async || {
        let name = "infra_lmstfy_redis_qps";
        api.metric_with_label(name, "command=\"publish\"").await
    };
    queue.publish("x").id().await;
    let mut before = calls().await;
    // Each job has 1649 bytes. 5 bulks of 8 jobs are too much for one call and go in two; a bulk of 12 jobs is too
    // much to share a call.
    for (jobs, calls_expected) in [(8, 2.0), (12, BULKS as f64)] {
        stack.redis.pause().unwrap();
        let mut answers = vec![publish(api, &queue, &queue.path(), "first").await];
        until_backlog(api, 1).await;
        let bodies = format!("[{}]", vec!["1"; jobs].join(","));
        let path = format!("{}/bulk", queue.path());
        for bulk in 1..=BULKS {
            answers.push(publish(api, &queue, &path, &bodies).await);
            until_backlog(api, 1 + bulk * jobs).await;
        }
        stack.redis.resume().unwrap();
        for mut answered in answers {
            answered.answer().await.unwrap().expect(201);
        }
        let after = calls().await;
        assert_eq!(after - before, 1.0 + calls_expected, "{jobs} jobs");
        before = after;
    }
    stack.finish().await;
}

/// Sends a publish with 16 attributes of 103 bytes.
async fn publish(api: &Daemon, queue: &QueueClient, path: &str, body: &str) -> RawHttp {
    let attributes = (10..26).map(|number| (format!("Job-Attr-k{number}"), "x".repeat(100)));
    let others = [
        ("X-Token".to_owned(), queue.token().to_owned()),
        ("Enable-Job-Version".to_owned(), "yes".to_owned()),
    ];
    let headers: Vec<_> = others.into_iter().chain(attributes).collect();
    let mut http = RawHttp::connect(api.listen()).await;
    http.request("PUT", path, &headers, body.as_bytes()).await;
    http
}

async fn until_backlog(api: &Daemon, jobs: usize) {
    eventually("the backlog", Duration::from_secs(20), async || {
        match api.metric("tidegate_publish_backlog_jobs").await {
            found if found == jobs as f64 => Ok(()),
            found => Err(found),
        }
    })
    .await;
}
