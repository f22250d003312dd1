//! The Redis of tokens and limits is unavailable, and the Redis of the jobs works.

use std::time::{Duration, Instant};

use tidegate_testkit::fault_proxy::{DirectionConditions, NetworkConditions};
use tidegate_testkit::{
    FaultProxy, QueueClient, RawHttp, RedisServer, Stack, eventually, print_figure, start_redis,
};

const PATIENCE: Duration = Duration::from_secs(60);
/// One request for each token waits for 0.5 s, the others do not wait.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(5);
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// A second, and room for a busy machine. An answer that is not read again is used for an hour.
const REVOKED_WITHIN: Duration = Duration::from_secs(5);
const UNCHECKED: &str = r#"{"error":"the token cannot be checked now, please retry later"}"#;
const ANSWERS: &str = "tidegate_last_known_answers_total";

struct AdminStoreFixture {
    admin: RedisServer,
    stack: Stack,
}

async fn fixture() -> AdminStoreFixture {
    let admin = start_redis();
    let lines = format!("[admin_store]\nurl = \"{}\"", admin.url());
    let stack = Stack::builder().apis(2).api_config(&lines).start().await;
    AdminStoreFixture { admin, stack }
}

impl AdminStoreFixture {
    async fn queue(&self, name: &str) -> QueueClient {
        self.stack.queue_of("default", "shop", name).await
    }
}

/// Publishes, consumes and acks a job; returns how long that took.
async fn round_trip(queue: &QueueClient) -> Duration {
    let began_at = Instant::now();
    let id = queue.publish("x").id().await;
    let job = queue.consume().job().await.expect("a job");
    assert_eq!(job.id, id);
    queue.ack(&id).await;
    began_at.elapsed()
}

/// Known tokens work between `event` and `end`, unknown ones are answered 503.
async fn serves_while(event: impl Fn(&mut RedisServer), end: impl Fn(&mut RedisServer)) {
    let AdminStoreFixture { mut admin, stack } = fixture().await;
    let api = stack.api(0);
    let known = stack.queue_of("default", "shop", "known").await;
    let unknown = stack.queue_of("default", "shop", "unknown").await;
    let revoked = stack.queue_of("default", "shop", "revoked").await;
    round_trip(&known).await;
    round_trip(&revoked).await;
    // The cached answers are no longer fresh.
    tokio::time::sleep(Duration::from_millis(1500)).await;

    tokio::task::block_in_place(|| event(&mut admin));
    let first = round_trip(&known).await;
    assert!(first < FIRST_ANSWER_MAX, "{first:?}");
    for _ in 0..20 {
        let took = round_trip(&known).await;
        assert!(took < ANSWER_MAX, "{took:?}");
    }
    let parked = known.sibling("parked");
    let waiting = tokio::spawn(
        parked
            .with_separate_connections()
            .consume()
            .timeout_s(60)
            .job(),
    );
    api.wait_for_waiting_consumers(1).await;
    let answer = unknown.publish("x").send().await.unwrap().expect(503);
    assert_eq!(answer.text(), UNCHECKED);
    assert_eq!(answer.header("retry-after"), Some("1"));
    round_trip(&revoked).await;
    assert!(api.metric_with_label(ANSWERS, "subject=\"tokens\"").await >= 20.0);
    assert!(api.metric_with_label(ANSWERS, "subject=\"limits\"").await >= 20.0);
    let log = api.log();
    assert!(log.contains("requests use the last answers"), "{log}");
    assert!(!waiting.is_finished());

    tokio::task::block_in_place(|| end(&mut admin));
    eventually(
        "an unknown token is checked",
        PATIENCE,
        async || match unknown.publish("x").send().await.unwrap() {
            answer if answer.status == 201 => Ok(()),
            answer => Err(answer),
        },
    )
    .await;
    // A request makes the API look the token up again in the background within 0.5 s.
    eventually("redis answers", PATIENCE, async || {
        round_trip(&known).await;
        match api.log().contains("redis answers again") {
            true => Ok(()),
            false => Err("not logged"),
        }
    })
    .await;
    known.sibling("parked").publish("x").id().await;
    waiting
        .await
        .unwrap()
        .expect("the parked consumer gets the job");
    round_trip(&revoked).await;
    expect_revocation(&stack, &revoked).await;
}

/// The other process deletes a token; this one reads that from Redis.
async fn expect_revocation(stack: &Stack, revoked: &QueueClient) {
    eventually("it is revoked", PATIENCE, async || {
        match revoked.try_revoke(stack.api(1)).await.unwrap() {
            answer if answer.status == 204 => Ok(()),
            answer => Err(answer),
        }
    })
    .await;
    let revoked_at = Instant::now();
    eventually(
        "a revoked token is refused",
        PATIENCE,
        async || match revoked.publish("x").send().await.unwrap().status {
            401 => Ok(()),
            other => Err(other),
        },
    )
    .await;
    let took = revoked_at.elapsed();
    print_figure(&format!(
        "revoked in another process: refused after {took:?}"
    ));
    assert!(took < REVOKED_WITHIN, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn known_tokens_are_accepted_while_their_redis_is_down() {
    serves_while(RedisServer::kill, |admin| admin.restart().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn known_tokens_are_accepted_while_their_redis_is_paused() {
    serves_while(
        |admin| admin.pause().unwrap(),
        |admin| admin.resume().unwrap(),
    )
    .await;
}

/// Redis cannot count, so each process does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_holds_in_each_process_while_its_redis_is_down() {
    const LIMIT: u64 = 5;
    let mut fixture = fixture().await;
    let limited = fixture.queue("limited").await;
    let api = fixture.stack.api(0);
    limited.limit_token(api, 0, LIMIT, 3600).await;
    limited.publish("x").id().await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    tokio::task::block_in_place(|| fixture.admin.kill());
    // A request that fails uses no unit.
    for _ in 0..LIMIT {
        let refused = limited.publish("x").delay_s(u64::MAX).send().await;
        refused.unwrap().expect(400);
    }
    let mut statuses = Vec::new();
    for _ in 0..2 * LIMIT {
        statuses.push(limited.publish("x").send().await.unwrap().status);
    }
    let expected = [vec![201; LIMIT as usize], vec![429; LIMIT as usize]].concat();
    assert_eq!(statuses, expected);
    // The admin port does not hide the failure.
    let mut http = RawHttp::connect(fixture.stack.api(0).admin()).await;
    http.request("POST", "/token/shop?description=x", &[], b"")
        .await;
    http.answer().await.unwrap().expect(500);
}

/// Publishes for this time, one job after the other; returns how many publishes took longer than `slow`.
async fn slow_publishes(queue: &QueueClient, time: Duration, slow: Duration) -> usize {
    let end = Instant::now() + time;
    let mut slow_ones = 0;
    while Instant::now() < end {
        let began_at = Instant::now();
        queue.publish("x").id().await;
        slow_ones += usize::from(began_at.elapsed() > slow);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    slow_ones
}

/// Cached answers are refreshed in the background.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_do_not_wait_for_a_slow_admin_store() {
    const SLOW: Duration = Duration::from_millis(200);
    const SAMPLE: Duration = Duration::from_secs(5);
    /// When the delay begins, and by accident on a busy machine. Once a second, for token and limit, would be ten.
    const SLOW_MAX: usize = 3;
    let admin = start_redis();
    let proxy = FaultProxy::start(admin.address(), 0).await;
    let lines = format!("[admin_store]\nurl = \"redis://{}\"", proxy.address());
    let stack = Stack::builder().apis(1).api_config(&lines).start().await;
    let queue = stack.queue_of("default", "shop", "known").await;
    queue.publish("x").id().await;
    for delay_ms in [400, 700] {
        let to_client = DirectionConditions {
            delay: Duration::from_millis(delay_ms),
            ..DirectionConditions::default()
        };
        proxy.set(NetworkConditions {
            to_client,
            ..NetworkConditions::default()
        });
        let slow = slow_publishes(&queue, SAMPLE, SLOW).await;
        print_figure(&format!("{delay_ms} ms away: {slow} slow publishes"));
        assert!(slow <= SLOW_MAX, "{delay_ms} ms away: {slow}");
    }
}

/// The API learns the limit of a token from any request with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_used_only_to_peek_can_publish_while_its_redis_is_down() {
    let mut fixture = fixture().await;
    let queue = fixture.queue("q").await;
    queue.peek().await.expect(404);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    tokio::task::block_in_place(|| fixture.admin.kill());
    round_trip(&queue).await;
}

/// The process counts units itself, and one call at a time asks whether Redis counts again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_first_requests_wait_for_a_paused_admin_store() {
    const CLIENTS: usize = 4;
    const SLOW: Duration = Duration::from_secs(1);
    let fixture = fixture().await;
    let queue = fixture.queue("limited").await;
    let limit = queue.limit_token(fixture.stack.api(0), 0, 100_000, 3600);
    limit.await;
    queue.publish("x").id().await;
    fixture.admin.pause().unwrap();
    let publishing = (0..CLIENTS).map(|_| {
        let queue = queue.with_separate_connections();
        tokio::spawn(async move { slow_publishes(&queue, Duration::from_secs(10), SLOW).await })
    });
    let mut slow = 0;
    for publishing in publishing.collect::<Vec<_>>() {
        slow += publishing.await.unwrap();
    }
    // Each client may have a second one, if the machine stalls. If each request waited, a client would have three or
    // more.
    assert!(slow <= 2 * CLIENTS, "{slow}");
    fixture.admin.resume().unwrap();
}
