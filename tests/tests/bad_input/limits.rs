//! The configurable limits of requests and of waiting consumers.

use std::time::Duration;

use tidegate_testkit::{RawHttp, Stack, eventually, start_redis};

const LIMITS: &str = "
    [requests]
    name_bytes_max = 8
    job_bytes_max = 10
    bulk_bytes_max = 100
    bulk_jobs_max = 3
    consume_jobs_max = 5
    consume_queues_max = 2
    [waiters]
    wait_max = \"1s\"
    in_process_max = 3
    per_token_max = 2";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_above_a_configured_limit_get_the_error_of_lmstfy() {
    let builder = Stack::builder().pumps(0).api_config(LIMITS);
    let stack = builder.start().await;
    let queue = stack.queue_in("ns", "q").await;
    let expect = async |method: &str, path: &str, status: u16, text: &str| {
        let answer = queue.raw(method, path).await;
        assert_eq!((answer.status, answer.text()), (status, text.to_owned()));
    };
    let long = r#"{"error":"namespace or queue name too long"}"#;
    expect("GET", "/api/ns/123456789/peek", 400, long).await;
    expect(
        "GET",
        "/api/ns/12345678/size",
        200,
        r#"{"namespace":"ns","queue":"12345678","size":0}"#,
    )
    .await;
    let count = r#"{"error":"invalid count"}"#;
    expect("GET", "/api/ns/q?count=6", 400, count).await;
    expect(
        "GET",
        "/api/ns/q?count=5",
        404,
        r#"{"msg":"no job available"}"#,
    )
    .await;
    let names = r#"{"error":"invalid queue name(s)"}"#;
    expect("GET", "/api/ns/a,b,c", 400, names).await;
    expect("GET", "/api/ns/a,b,a", 404, r#"{"msg":"no job available"}"#).await;

    let refused = queue.publish("12345678901").send().await.unwrap();
    assert_eq!(
        (refused.status, refused.text().as_str()),
        (413, r#"{"error":"body too large"}"#)
    );
    queue.publish("1234567890").id().await;
    let bulk = async |jobs: usize| {
        let bodies = vec!["1".to_owned(); jobs];
        queue.publish_bulk(&bodies).send().await.unwrap()
    };
    assert_eq!(bulk(3).await.status, 201);
    let refused = bulk(4).await;
    assert_eq!(
        (refused.status, refused.text().as_str()),
        (400, r#"{"error":"too many jobs"}"#)
    );
    assert_eq!(bulk(60).await.status, 413);
    assert_eq!(queue.size().await, 4);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_consumers_are_limited_by_token_and_by_process() {
    let limits = LIMITS.replace("wait_max = \"1s\"", "wait_max = \"1m\"");
    let builder = Stack::builder().pumps(0).api_config(&limits);
    let stack = builder.start().await;
    let first = stack.queue_in("ns", "q").await;
    let second = stack.queue_in("ns", "q").await;
    let wait = async |token: &str| {
        let mut http = RawHttp::connect(stack.api(0).listen()).await;
        let token = [("X-Token".to_owned(), token.to_owned())];
        http.request("GET", "/api/ns/q?timeout=60", &token, b"")
            .await;
        http
    };
    let _waiting = [wait(first.token()).await, wait(first.token()).await];
    stack.api(0).wait_for_waiting_consumers(2).await;
    let answer = wait(first.token()).await.answer().await.unwrap();
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("retry-after"), Some("1"));
    let text = r#"{"error":"too many waiting consumers with this token, please retry later"}"#;
    assert_eq!(answer.text(), text);
    // A consume that does not wait is not counted.
    assert_eq!(first.consume().send().await.unwrap().status, 404);

    let third = wait(second.token()).await;
    stack.api(0).wait_for_waiting_consumers(3).await;
    let answer = wait(second.token()).await.answer().await.unwrap();
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("retry-after"), Some("1"));
    let text = r#"{"error":"too many waiting consumers, please retry later"}"#;
    assert_eq!(answer.text(), text);
    drop(third);
    stack.api(0).wait_for_waiting_consumers(2).await;
    let _fourth = wait(second.token()).await;
    stack.api(0).wait_for_waiting_consumers(3).await;
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_at_the_configured_maximum() {
    let builder = Stack::builder().pumps(0).api_config(LIMITS);
    let stack = builder.start().await;
    let queue = stack.queue_in("ns", "q").await;
    let begin = std::time::Instant::now();
    let answer = queue.consume().timeout_s(4_294_967_295).send().await;
    assert_eq!(answer.unwrap().status, 404);
    assert!(begin.elapsed().as_millis() >= 1000, "{:?}", begin.elapsed());
    stack.finish().await;
}

/// The id of a job that does not exist.
const OTHER_ID: &str = "01M7YAG1QB00PG00001X143D2D";

/// Calls last as long as the test.
const BACKLOG: &str = "
    [requests]
    backlog_jobs_max = 4
    backlog_bytes_max = 1000
    [metrics]
    refresh = \"1m\"
    [pool.default]
    command_timeout = \"1m\"";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_backlog_of_a_pool_is_bounded() {
    let tokens = start_redis();
    let admin_store = format!("[admin_store]\nurl = \"{}\"", tokens.url());
    let builder = Stack::builder().pumps(0).api_config(BACKLOG);
    let stack = builder.api_config(&admin_store).start().await;
    let (api, queue) = (stack.api(0), stack.queue("q").await);
    let until_backlog = async |jobs: f64, bytes: f64| {
        eventually("the backlog", Duration::from_secs(20), async || {
            let found = api.metric("tidegate_publish_backlog_jobs").await;
            let found_bytes = api.metric("tidegate_publish_backlog_bytes").await;
            match (found, found_bytes) == (jobs, bytes) {
                true => Ok(()),
                false => Err(format!("{found} jobs, {found_bytes} bytes")),
            }
        })
        .await;
    };
    let request = async |path: &str, body: &[u8]| {
        let mut http = RawHttp::connect(api.listen()).await;
        let token = [("X-Token".to_owned(), queue.token().to_owned())];
        http.request("PUT", path, &token, body).await;
        http
    };
    let (path, bulk) = (queue.path(), format!("{}/bulk", queue.path()));
    // The figures are cached, so scrapes work while Redis does not answer.
    until_backlog(0.0, 0.0).await;
    stack.redis.pause().unwrap();
    let first = request(&path, &[b'x'; 600]).await;
    until_backlog(1.0, 600.0).await;
    let second = request(&bulk, b"[1,2]").await;
    until_backlog(3.0, 602.0).await;
    let large = queue
        .publish(vec![b'x'; 300])
        .header("Enable-Job-Version", "yes")
        .header("Job-Attr-a", &"x".repeat(100));
    let text = r#"{"error":"too many publishes are waiting, please retry later"}"#;
    let expect_refusal = |refused: tidegate_testkit::Answer| {
        assert_eq!((refused.status, refused.text().as_str()), (503, text));
        assert_eq!(refused.header("retry-after"), Some("1"));
    };
    expect_refusal(large.send().await.unwrap());
    let leaving = request(&format!("{path}/job/{OTHER_ID}"), b"x").await;
    until_backlog(4.0, 603.0).await;
    for refused in [
        queue.publish("x").send().await,
        queue.republish(OTHER_ID, "x").send().await,
        queue.publish_bulk(&["1".to_owned()]).send().await,
    ] {
        expect_refusal(refused.unwrap());
    }
    assert_eq!(api.metric("tidegate_publishes_rejected_total").await, 4.0);
    // The replacement is in a call and stays there; a waiting bulk leaves the backlog.
    drop(leaving);
    drop(second);
    until_backlog(2.0, 601.0).await;
    let third = request(&path, b"").await;
    until_backlog(3.0, 601.0).await;
    stack.redis.resume().unwrap();
    for mut answered in [first, third] {
        answered.answer().await.unwrap().expect(201);
    }
    until_backlog(0.0, 0.0).await;
    assert_eq!(queue.size().await, 3);
    stack.finish().await;
}
