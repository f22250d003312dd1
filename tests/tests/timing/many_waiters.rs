//! Waiting consumers need little memory and no connections to Redis.

use std::time::{Duration, Instant};

use tidegate_testkit::{
    QueueClient, RawHttp, RedisControl, Stack, connect_to_redis, eventually, print_figure,
};

use crate::alone;

const WAITERS: usize = 2000;
const QUEUES: usize = 100;
const CONNECTIONS_MAX: usize = 8;
const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_waiting_consumers_need_no_more_connections_to_redis() {
    let _alone = alone().await;
    let stack = Stack::builder()
        .pumps(0)
        .api_config("waiters.poll_interval = \"1s\"")
        .start()
        .await;
    let queue = stack.queue("queue-0").await;
    let queues: Vec<QueueClient> = (0..QUEUES)
        .map(|number| queue.sibling(&format!("queue-{number}")))
        .collect();

    let first = wait(&stack, &queue).await;
    stack.api(0).wait_for_waiting_consumers(1).await;
    let connections_before = redis_connections(&stack).await;
    let memory_before = stack.api(0).resident_bytes();
    let mut waiters = vec![(0, first)];
    for number in 1..WAITERS {
        waiters.push((
            number % QUEUES,
            wait(&stack, &queues[number % QUEUES]).await,
        ));
    }
    stack.api(0).wait_for_waiting_consumers(WAITERS).await;
    let connections = redis_connections(&stack).await;
    let memory = stack.api(0).resident_bytes() - memory_before;
    print_figure(&format!(
        "{WAITERS} waiting consumers: {connections} connections to redis, before {connections_before}"
    ));
    print_figure(&format!(
        "memory per waiting consumer: {:.1} KiB",
        memory as f64 / 1024.0 / WAITERS as f64
    ));
    assert_eq!(connections, connections_before);
    assert!(connections <= CONNECTIONS_MAX);

    polls_do_not_grow_with_the_queues(&stack).await;
    new_subscriptions_cause_polls_of_buckets(&stack).await;

    let begin = Instant::now();
    let bodies: Vec<String> = (0..WAITERS / QUEUES)
        .map(|number| number.to_string())
        .collect();
    for queue in &queues {
        queue.publish_bulk(&bodies).ids().await;
    }
    for (number, waiter) in &mut waiters {
        let answer = waiter.answer().await.unwrap().expect(200);
        assert_eq!(answer.json()["queue"], format!("queue-{number}"));
    }
    print_figure(&format!(
        "all were served within {:?} from the first publish",
        begin.elapsed()
    ));
    stack.api(0).wait_for_waiting_consumers(0).await;
    assert_eq!(redis_connections(&stack).await, connections_before);
    stack.finish().await;
}

async fn wait(stack: &Stack, queue: &QueueClient) -> RawHttp {
    let mut http = RawHttp::connect(stack.api(0).listen()).await;
    let token = [("X-Token".to_owned(), queue.token().to_owned())];
    let target = format!("{}?timeout=60", queue.path());
    http.request("GET", &target, &token, b"").await;
    http
}

/// The number of connections to Redis, without that of this test.
async fn redis_connections(stack: &Stack) -> usize {
    let client = redis::Client::open(stack.redis.url()).unwrap();
    let mut connection = connect_to_redis(&client).await.unwrap();
    let list: String = redis::cmd("CLIENT")
        .arg("LIST")
        .query_async(&mut connection)
        .await
        .unwrap();
    list.lines().count() - 1
}

/// The number of calls of a script so far.
async fn calls(stack: &Stack, verb: &str) -> f64 {
    let label = format!("command=\"{verb}\"");
    let api = stack.api(0);
    api.metric_with_label("infra_lmstfy_redis_qps", &label)
        .await
}

/// Doorbells may be lost with a subscription. The queues are checked by bucket, as by polls, not each by its own call.
async fn new_subscriptions_cause_polls_of_buckets(stack: &Stack) {
    const CUTS: usize = 3;
    let before = calls(stack, "reserve").await;
    let mut control = RedisControl::connect(&stack.redis.url()).await;
    for _ in 0..CUTS {
        let polls = calls(stack, "poll").await;
        eventually("the API has subscribed", LIMIT, async || {
            match control.end_subscriptions().await {
                0 => Err(0),
                ended => Ok(ended),
            }
        })
        .await;
        eventually("buckets are polled", LIMIT, async || {
            match calls(stack, "poll").await - polls {
                new if new >= 1.0 => Ok(()),
                new => Err(new),
            }
        })
        .await;
        // The checks after a new subscription are over.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let reserves = calls(stack, "reserve").await - before;
    assert!(
        reserves.abs() < 0.5,
        "{reserves} calls of reserve after {CUTS} new subscriptions"
    );
}

/// While all queues are empty, a poll interval has one call for each bucket at most, and no `reserve`.
async fn polls_do_not_grow_with_the_queues(stack: &Stack) {
    const INTERVALS: u32 = 3;
    const BUCKETS: f64 = 256.0;
    let calls = async |verb: &str| calls(stack, verb).await;
    let (polls, reserves) = (calls("poll").await, calls("reserve").await);
    let begin = Instant::now();
    tokio::time::sleep(Duration::from_secs(INTERVALS.into())).await;
    let (polls, reserves) = (
        calls("poll").await - polls,
        calls("reserve").await - reserves,
    );
    let intervals = begin.elapsed().as_secs_f64() + 1.0;
    print_figure(&format!(
        "{QUEUES} idle queues: {polls} polls and {reserves} reserves in {INTERVALS} poll intervals"
    ));
    assert!(reserves.abs() < 0.5, "{reserves} calls of reserve");
    assert!((1.0..=BUCKETS * intervals).contains(&polls), "{polls}");
}
