//! A token selects its pool.

use tidegate_core::JobsByState;
use tidegate_testkit::consistency;
use tidegate_testkit::{QueueClient, RawHttp, Stack, connect_to_redis};

const NAMESPACE: &str = "shop";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_of_the_same_name_in_two_pools_are_separate() {
    let stack = Stack::builder().pool("other").start().await;
    let here = stack.queue_of("default", NAMESPACE, "orders").await;
    let there = stack.queue_of("other", NAMESPACE, "orders").await;
    assert!(there.token().starts_with("other:"), "{}", there.token());

    here.publish("here").id().await;
    // A pump serves the other pool, too.
    there.publish("there").delay_s(1).id().await;
    assert_eq!(there.size().await, 0);
    let job = there.consume().timeout_s(10).job().await.unwrap();
    assert_eq!(job.text(), "there");
    assert_eq!(there.consume().job().await.map(|job| job.text()), None);
    let job = here.consume().job().await.unwrap();
    assert_eq!(job.text(), "here");
    // An ack in the wrong pool finds no job.
    there.ack(&job.id).await;
    assert_eq!(here.peek_job(&job.id).await.status, 200);
    here.ack(&job.id).await;
    assert_eq!(here.peek_job(&job.id).await.status, 404);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_consumer_gets_jobs_of_its_own_pool_only() {
    let stack = Stack::builder().pumps(0).pool("other").start().await;
    let here = stack.queue_of("default", NAMESPACE, "orders").await;
    let there = stack.queue_of("other", NAMESPACE, "orders").await;
    let waiting = there.clone();
    let waiting = tokio::spawn(async move { waiting.consume().timeout_s(60).job().await });
    stack.api(0).wait_for_waiting_consumers(1).await;
    here.publish("here").id().await;
    there.publish("there").id().await;
    assert_eq!(waiting.await.unwrap().unwrap().text(), "there");
    assert_eq!(here.size().await, 1);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_opens_its_namespace_in_its_pool_only() {
    let stack = Stack::builder().pumps(0).pool("other").start().await;
    let here = stack.queue_of("default", NAMESPACE, "orders").await;
    let there = stack.queue_of("other", NAMESPACE, "orders").await;
    let bare = there.token().strip_prefix("other:").unwrap();
    let status = async |token: &str| {
        let queue = QueueClient::new(&stack.api(0).url(), NAMESPACE, "orders", token);
        queue.peek().await.status
    };
    assert_eq!(status(here.token()).await, 404, "opens an empty queue");
    assert_eq!(status(&format!(":{}", here.token())).await, 404);
    assert_eq!(status(&format!("default:{}", here.token())).await, 404);
    assert_eq!(status(there.token()).await, 404);
    assert_eq!(status(bare).await, 401);
    assert_eq!(status(&format!("other:{}", here.token())).await, 401);
    let unknown = QueueClient::new(&stack.api(0).url(), NAMESPACE, "orders", "nowhere:token");
    let answer = unknown.peek().await;
    assert_eq!(answer.status, 404);
    assert_eq!(answer.text(), r#"{"error":"pool not found"}"#);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_and_limits_can_be_stored_in_a_separate_redis() {
    let admin = tidegate_testkit::start_redis();
    let lines = format!("[admin_store]\nurl = \"{}\"", admin.url());
    let stack = Stack::builder().pumps(0).api_config(&lines).start().await;
    let queue = stack.queue_of("default", NAMESPACE, "orders").await;
    let path = format!("/token/{NAMESPACE}/{}/limit", queue.token());
    let url = format!("{}{path}", stack.api(0).admin_url());
    let limit = r#"{"read":0,"write":1,"interval":60}"#;
    let made = reqwest::Client::new().post(url).body(limit).send().await;
    assert_eq!(made.unwrap().status(), 201);
    queue.publish("one").id().await;
    let refused = queue.publish("two").send().await.unwrap();
    assert_eq!(refused.status, 429);

    let keys = |url: String| async move {
        let client = redis::Client::open(url).unwrap();
        let mut connection = connect_to_redis(&client).await.unwrap();
        let mut keys: Vec<String> = redis::cmd("KEYS")
            .arg("*")
            .query_async(&mut connection)
            .await
            .unwrap();
        keys.retain(|key| key.contains("token") || key.contains("limit"));
        keys.len()
    };
    assert_eq!(keys(stack.redis.url()).await, 0, "none in the pool");
    assert!(keys(admin.url()).await >= 2, "all in the admin store");
    assert_eq!(
        consistency::totals(&admin.url()).await,
        JobsByState::default()
    );
    stack.finish().await;
}

/// The name of a pool is no secret, so it does not count as part of the token.
#[tokio::test]
async fn the_minimum_token_length_excludes_the_pool_name() {
    let stack = Stack::builder().pool("other").start().await;
    let mut admin = RawHttp::connect(stack.api(0).admin()).await;
    let short = "1234567890123456789";
    for (token, status) in [
        (format!("other:{short}"), 400),
        (format!("default:{short}"), 400),
        (format!("other:{short}0"), 201),
        // No pool has this name, so the colons belong to the token.
        ("other:and:1234567890".to_owned(), 201),
    ] {
        let path = format!("/token/{NAMESPACE}?description=x&token={token}");
        admin.request("POST", &path, &[], b"").await;
        admin.answer().await.unwrap().expect(status);
    }
    stack.finish().await;
}
