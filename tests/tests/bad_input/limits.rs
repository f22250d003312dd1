//! Every limit of requests and waiting consumers is the operator's choice.

use tidegate_testkit::{RawHttp, Stack};

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
async fn requests_over_a_limit_get_the_answer_of_the_wire() {
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
async fn only_so_many_consumers_wait_with_a_token_and_in_a_process() {
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
    stack.api(0).until_waiting(2).await;
    let answer = wait(first.token()).await.answer().await.unwrap();
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("retry-after"), Some("1"));
    let text = r#"{"error":"too many waiting consumers with this token, please retry later"}"#;
    assert_eq!(answer.text(), text);
    // Who does not wait needs no room.
    assert_eq!(first.consume().send().await.unwrap().status, 404);

    let third = wait(second.token()).await;
    stack.api(0).until_waiting(3).await;
    let answer = wait(second.token()).await.answer().await.unwrap();
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("retry-after"), Some("1"));
    let text = r#"{"error":"too many waiting consumers, please retry later"}"#;
    assert_eq!(answer.text(), text);
    drop(third);
    stack.api(0).until_waiting(2).await;
    let _fourth = wait(second.token()).await;
    stack.api(0).until_waiting(3).await;
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_at_its_limit_with_no_job() {
    let builder = Stack::builder().pumps(0).api_config(LIMITS);
    let stack = builder.start().await;
    let queue = stack.queue_in("ns", "q").await;
    let begin = std::time::Instant::now();
    let answer = queue.consume().timeout_s(4_294_967_295).send().await;
    assert_eq!(answer.unwrap().status, 404);
    assert!(begin.elapsed().as_millis() >= 1000, "{:?}", begin.elapsed());
    stack.finish().await;
}
