//! One process collects the sizes of queues, the others read what it has stored.

use std::time::Duration;

use tidegate_testkit::{Daemon, Stack, eventually};

const SIZES: &str = "tg:sizes:1";
const RARELY: &str = "[metrics]\nrefresh = \"1h\"";
const LIMIT: Duration = Duration::from_secs(30);

/// The number of ready jobs that a process reports, and how often it has read queues.
async fn ready_and_reads(api: &Daemon) -> (f64, f64) {
    let ready = api.metric("infra_lmstfy_redis_queue_sizes").await;
    let calls = ("infra_lmstfy_redis_qps", "command=\"list_queues\"");
    let page = api.metrics().await;
    let reads = match page.contains(calls.1) {
        true => api.metric_with_label(calls.0, calls.1).await,
        false => 0.0,
    };
    (ready, reads)
}

fn redis(stack: &Stack, command: &[&str]) {
    let client = redis::Client::open(stack.redis.url()).unwrap();
    let mut command_line = redis::cmd(command[0]);
    command_line.arg(&command[1..]);
    command_line
        .exec(&mut client.get_connection().unwrap())
        .unwrap();
}

#[tokio::test]
async fn one_process_collects_for_all_and_damaged_sizes_are_collected_again() {
    let stack = Stack::builder().apis(3).api_config(RARELY).start().await;
    let queue = stack.queue("q").await;
    queue.publish("x").id().await;
    assert_eq!(ready_and_reads(stack.api(0)).await, (1.0, 256.0));
    // It reports what was collected, not the second job.
    queue.publish("x").id().await;
    assert_eq!(ready_and_reads(stack.api(1)).await, (1.0, 0.0));
    let age_s = stack.api(1).metric("tidegate_collection_age_seconds").await;
    assert!(age_s > 0.0, "{age_s}");
    redis(&stack, &["HSET", SIZES, "a:0", "damaged", "b:0", "damaged"]);
    assert_eq!(ready_and_reads(stack.api(2)).await, (2.0, 256.0));
    stack.finish().await;
}

#[tokio::test]
async fn a_collector_that_died_is_replaced_and_a_key_of_another_type_is_no_obstacle() {
    let config = "[metrics]\nrefresh = \"0s\"";
    let stack = Stack::builder().apis(2).api_config(config).start().await;
    let queue = stack.queue("q").await;
    queue.publish("x").id().await;
    let client = redis::Client::open(stack.redis.url()).unwrap();
    let time: (u64, u64) = redis::cmd("TIME")
        .query(&mut client.get_connection().unwrap())
        .unwrap();
    let claimed_at = (time.0 * 1000).to_string();
    redis(
        &stack,
        &["HSET", SIZES, "claim", "dead", "claimed_at", &claimed_at],
    );
    let stored = async || {
        let (ready, _) = ready_and_reads(stack.api(0)).await;
        assert_eq!(ready, 1.0, "figures are reported meanwhile");
        let mut connection = client.get_connection().unwrap();
        let id: Option<String> = redis::Cmd::hget(SIZES, "id")
            .query(&mut connection)
            .unwrap();
        id.ok_or("nothing is stored")
    };
    eventually("another process collects", LIMIT, stored).await;
    redis(&stack, &["DEL", SIZES]);
    redis(&stack, &["SET", SIZES, "1"]);
    for number in 0..2 {
        let api = stack.api(number);
        assert_eq!(ready_and_reads(api).await.0, 1.0);
        assert_eq!(api.metric("tidegate_collection_up").await, 1.0);
    }
    redis(&stack, &["DEL", SIZES]);
    stack.finish().await;
}
