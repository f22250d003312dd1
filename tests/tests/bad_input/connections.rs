//! More connections than the limits allow.

use std::time::Duration;

use serde_json::json;
use tidegate_testkit::{QueueClient, RawHttp, Stack, eventually, print_figure};

const SOON: Duration = Duration::from_secs(20);
const CROWD: usize = 60;
/// The files that are left for the connections of the crowd.
const FILES_LEFT: u64 = 10;
const A_WHILE: Duration = Duration::from_secs(1);

async fn wait_for_a_job(stack: &Stack, queue: &QueueClient) -> RawHttp {
    let mut http = RawHttp::connect(stack.api(0).listen()).await;
    let token = [("X-Token".to_owned(), queue.token().to_owned())];
    let target = format!("{}?timeout=60", queue.path());
    http.request("GET", &target, &token, b"").await;
    http
}

#[tokio::test]
async fn a_connection_above_the_limit_is_answered_503() {
    let config = "connections.connections_max = 3";
    let stack = Stack::builder().pumps(0).api_config(config).start().await;
    let queue = stack.queue("q").await;
    let mut waiting = Vec::new();
    for number in 1..=3 {
        waiting.push(wait_for_a_job(&stack, &queue).await);
        stack.api(0).wait_for_waiting_consumers(number).await;
    }
    for body in ["x".to_owned(), "x".repeat(1024 * 1024)] {
        let refused = queue
            .with_separate_connections()
            .publish(body)
            .send()
            .await
            .unwrap();
        assert_eq!(refused.header("retry-after"), Some("1"));
        assert_eq!(refused.header("connection"), Some("close"));
        let kind = Some("application/problem+json");
        assert_eq!(refused.header("content-type"), kind);
        let refused = refused.expect(503);
        let mut problem = refused.json();
        assert!(problem["detail"].is_string(), "{problem}");
        problem["detail"] = json!(null);
        let expected = json!({
            // Of lmstfy.
            "error": "too many connections",
            "applied": "no",
            "code": "too_many_connections",
            "detail": null,
            "instance": refused.header("x-request-id").unwrap(),
            "status": 503,
            "title": "Too many connections",
            "type": "urn:tidegate:problem:too_many_connections",
        });
        assert_eq!(problem, expected);
    }
    let counted = stack
        .api(0)
        .metric("tidegate_http_connections_refused_total");
    assert_eq!(counted.await, 2.0);
    // Log lines are written by a thread of their own.
    let warned = async || match stack.api(0).log() {
        message if message.contains("too many connections") => Ok(message),
        message => Err(message),
    };
    let message = eventually("a warning in the log", SOON, warned).await;
    assert_eq!(
        message.matches("too many connections").count(),
        1,
        "{message}"
    );

    drop(waiting.pop());
    let publish = async || match queue
        .with_separate_connections()
        .publish("x")
        .send()
        .await
        .unwrap()
        .status
    {
        201 => Ok(()),
        status => Err(status),
    };
    eventually("there is room", SOON, publish).await;
    waiting[0].answer().await.unwrap().expect(200);
    stack.finish().await;
}

/// The system refuses another socket. The API must neither stop nor retry all the time.
#[tokio::test]
async fn without_open_files_left_existing_connections_are_served() {
    let stack = Stack::builder().pumps(0).start().await;
    let queue = stack.queue("q").await;
    let api = stack.api(0);
    let path = format!("{}/size", queue.path());
    let mut early = RawHttp::connect(api.listen()).await;
    early.request("GET", &path, &[], b"").await;
    early.answer().await.unwrap().expect(200);

    api.limit_open_files(api.open_files() + FILES_LEFT);
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        crowd.push(RawHttp::connect(api.listen()).await);
    }
    let complaints = || api.log().matches("cannot accept connections").count();
    let complains = async || match complaints() {
        0 => Err(0),
        _ => Ok(()),
    };
    eventually("the error is logged", SOON, complains).await;
    let worked_before = api.cpu_time();
    let last = crowd.last_mut().unwrap();
    last.request("GET", &path, &[], b"").await;
    assert!(!last.is_closed_within(A_WHILE).await);
    let worked = api.cpu_time() - worked_before;
    print_figure(&format!(
        "without a file left it worked for {worked:?} in {A_WHILE:?}"
    ));
    assert!(worked < A_WHILE / 2, "{worked:?}");
    assert_eq!(complaints(), 1);
    early.request("GET", &path, &[], b"").await;
    early.answer().await.unwrap().expect(200);

    let mut last = crowd.pop().unwrap();
    drop(crowd);
    last.answer().await.unwrap().expect(200);
    queue.publish("x").id().await;
    assert!(!api.log().contains("panicked"), "{}", api.log());
    stack.finish().await;
}
