//! Waiting consumers need little memory and no connections to Redis.

use std::time::{Duration, Instant};

use tidegate_testkit::{QueueClient, RawHttp, Stack, connect_to_redis, print_figure};

use crate::alone;

const WAITERS: usize = 2000;
const QUEUES: usize = 100;
const CONNECTIONS_MAX: usize = 8;

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

/// While all queues are empty, a poll interval has one call for each bucket at most, and no `reserve`.
async fn polls_do_not_grow_with_the_queues(stack: &Stack) {
    const INTERVALS: u32 = 3;
    const BUCKETS: f64 = 256.0;
    let calls = async |verb: &str| {
        let label = format!("command=\"{verb}\"");
        let api = stack.api(0);
        api.metric_with_label("infra_lmstfy_redis_qps", &label)
            .await
    };
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
