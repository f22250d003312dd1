//! One process collects the sizes of queues, the others read what it has stored.

use std::time::Duration;

use tidegate_testkit::{Daemon, RawHttp, Stack, eventually, print_figure};

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

fn redis<T: redis::FromRedisValue>(stack: &Stack, command: &[&str]) -> T {
    let client = redis::Client::open(stack.redis.url()).unwrap();
    let mut command_line = redis::cmd(command[0]);
    command_line.arg(&command[1..]);
    command_line
        .query(&mut client.get_connection().unwrap())
        .unwrap()
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
    let _: u64 = redis(&stack, &["HSET", SIZES, "a:0", "damaged", "b:0", "damaged"]);
    assert_eq!(ready_and_reads(stack.api(2)).await, (2.0, 256.0));
    stack.finish().await;
}

#[tokio::test]
async fn a_collector_that_died_is_replaced_and_a_key_of_another_type_is_no_obstacle() {
    let config = "[metrics]\nrefresh = \"0s\"";
    let stack = Stack::builder().apis(2).api_config(config).start().await;
    let queue = stack.queue("q").await;
    queue.publish("x").id().await;
    let time: (u64, u64) = redis(&stack, &["TIME"]);
    let claimed_at = (time.0 * 1000).to_string();
    let dead = ["HSET", SIZES, "claim", "dead", "claimed_at", &claimed_at];
    let _: u64 = redis(&stack, &dead);
    let stored = async || {
        let (ready, _) = ready_and_reads(stack.api(0)).await;
        assert_eq!(ready, 1.0, "figures are reported meanwhile");
        stored_id(&stack).ok_or("nothing is stored")
    };
    eventually("another process collects", LIMIT, stored).await;
    let _: u64 = redis(&stack, &["DEL", SIZES]);
    let _: () = redis(&stack, &["SET", SIZES, "1"]);
    for number in 0..2 {
        let api = stack.api(number);
        assert_eq!(ready_and_reads(api).await.0, 1.0);
        assert_eq!(api.metric("tidegate_collection_up").await, 1.0);
    }
    let _: u64 = redis(&stack, &["DEL", SIZES]);
    stack.finish().await;
}

/// The id of the sizes that are stored.
fn stored_id(stack: &Stack) -> Option<String> {
    redis(stack, &["HGET", SIZES, "id"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_killed_delays_the_figures_by_seconds_only() {
    let stack = Stack::builder().apis(3).api_config(RARELY).start().await;
    let queue = stack.queue("q").await;
    queue.publish("x").id().await;
    let victim = stack.api(0);
    let mut kills = 0;
    // It must die between its claim and the end of its collection.
    while kills == 0 || stored_id(&stack).is_some() {
        kills += 1;
        assert!(kills < 100, "each collection was over before the kill");
        let _: u64 = redis(&stack, &["DEL", SIZES]);
        let mut scrape = RawHttp::connect(victim.admin()).await;
        scrape.request("GET", "/metrics", &[], b"").await;
        let claimed = async || {
            let claim: Option<String> = redis(&stack, &["HGET", SIZES, "claim"]);
            claim.or_else(|| stored_id(&stack)).ok_or("no claim")
        };
        eventually("the process collects", LIMIT, claimed).await;
        victim.kill();
        victim.restart().await;
    }
    print_figure(&format!("{kills} kills until one was in time"));
    // This one waits for the dead process for 3 s, and then reads the queues; for itself, unless the claim has ended.
    assert_eq!(ready_and_reads(stack.api(1)).await, (1.0, 256.0));
    // The claim has ended meanwhile, or ends while this one waits.
    assert_eq!(ready_and_reads(stack.api(2)).await.0, 1.0);
    assert!(stored_id(&stack).is_some());
    assert_eq!(ready_and_reads(victim).await, (1.0, 0.0));
    stack.finish().await;
}

/// The others wait for its collection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collection_is_finished_although_the_client_of_its_scrape_has_left() {
    let stack = Stack::builder().apis(2).api_config(RARELY).start().await;
    stack.queue("q").await.publish("x").id().await;
    stack.redis.pause().unwrap();
    let mut scrape = RawHttp::connect(stack.api(0).admin()).await;
    scrape.request("GET", "/metrics", &[], b"").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(scrape);
    tokio::time::sleep(Duration::from_millis(500)).await;
    stack.redis.resume().unwrap();
    let stored = async || stored_id(&stack).ok_or("nothing is stored");
    eventually("the process collects", LIMIT, stored).await;
    assert_eq!(ready_and_reads(stack.api(1)).await, (1.0, 0.0));
    stack.finish().await;
}

#[tokio::test]
async fn each_deployment_of_a_pool_that_moves_has_stored_sizes() {
    let stack = Stack::builder().apis(2).pool("new").start().await;
    let queue = stack.queue("q").await;
    queue.publish("old").id().await;
    stack.change_api_config(&format!("{RARELY}\n[pool.default]\nmigrate_to = \"new\""));
    for number in 0..2 {
        stack.api(number).kill();
        stack.api(number).restart().await;
    }
    queue.publish("new").id().await;
    assert_eq!(ready_and_reads(stack.api(0)).await, (2.0, 512.0));
    assert_eq!(ready_and_reads(stack.api(1)).await, (2.0, 0.0));
    stack.finish().await;
}
