//! Clients that take their time.

use std::time::{Duration, Instant};

use tidegate_testkit::{RawHttp, SharedStack, Stack};
use tokio::time::interval;

const HEADER_TIMEOUT: Duration = Duration::from_millis(500);
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
const BODY_TIMEOUT: Duration = Duration::from_millis(500);
const SLACK: Duration = Duration::from_millis(1500);

static STACK: SharedStack = SharedStack::new(|| {
    Stack::builder().pumps(0).api_config(
        "connections.header_timeout = \"500ms\"\n\
         connections.idle_timeout = \"2s\"\n\
         requests.body_timeout = \"500ms\"",
    )
});

#[tokio::test]
async fn a_header_that_trickles_is_cut() {
    let stack = STACK.lend().await;
    let mut http = RawHttp::connect(stack.api(0).listen()).await;
    let begin = Instant::now();
    assert!(http.send("GET /api/ns/q HTTP/1.1\r\nX-Slow: ").await);
    let mut ticks = interval(HEADER_TIMEOUT / 10);
    while begin.elapsed() < HEADER_TIMEOUT + SLACK && http.send("x").await {
        ticks.tick().await;
    }
    let lasted = begin.elapsed();
    assert!(lasted >= HEADER_TIMEOUT, "{lasted:?}");
    assert!(lasted < HEADER_TIMEOUT + SLACK, "{lasted:?}");
}

#[tokio::test]
async fn a_header_that_stops_is_cut() {
    let stack = STACK.lend().await;
    let mut http = RawHttp::connect(stack.api(0).listen()).await;
    let begin = Instant::now();
    assert!(http.send("GET /api/ns/q HTTP/1.1\r\nHost: ").await);
    // A word of refusal may come before the end.
    http.rest().await;
    let lasted = begin.elapsed();
    assert!(
        lasted >= HEADER_TIMEOUT && lasted < HEADER_TIMEOUT + SLACK,
        "{lasted:?}"
    );
}

#[tokio::test]
async fn an_idle_connection_outlives_the_header_timeout_and_ends_some_time() {
    let stack = STACK.lend().await;
    let mut http = RawHttp::connect(stack.api(0).listen()).await;
    for _ in 0..2 {
        assert!(!http.is_closed_within(HEADER_TIMEOUT * 2).await);
        http.request("GET", "/api/ns/q/size", &[], b"").await;
        http.answer().await.unwrap().expect(200);
    }
    assert!(http.is_closed_within(IDLE_TIMEOUT + SLACK).await);
}

#[tokio::test]
async fn a_body_that_stops_is_given_up() {
    let stack = STACK.lend().await;
    let queue = stack.queue("q").await;
    for (method, suffix) in [("PUT", ""), ("PUT", "/bulk"), ("PUT", "/job/x")] {
        let mut http = RawHttp::connect(stack.api(0).listen()).await;
        let begin = Instant::now();
        let head = format!(
            "{method} {}{suffix} HTTP/1.1\r\nHost: x\r\nX-Token: {}\r\nContent-Length: 100\r\n\r\n[1,",
            queue.path(),
            queue.token()
        );
        assert!(http.send(head).await);
        let answer = http.answer().await.unwrap();
        let lasted = begin.elapsed();
        assert_eq!(
            answer.expect(400).text(),
            r#"{"error":"failed to read body"}"#
        );
        assert!(
            lasted >= BODY_TIMEOUT && lasted < BODY_TIMEOUT + SLACK,
            "{lasted:?}"
        );
    }
    assert_eq!(queue.size().await, 0);
}

#[tokio::test]
async fn a_client_that_ends_in_the_middle_of_a_body_publishes_nothing() {
    let stack = STACK.lend().await;
    let queue = stack.queue("q").await;
    for _ in 0..20 {
        let mut http = RawHttp::connect(stack.api(0).listen()).await;
        let head = format!(
            "PUT {} HTTP/1.1\r\nHost: x\r\nX-Token: {}\r\nContent-Length: 100\r\n\r\nhalf a job",
            queue.path(),
            queue.token()
        );
        assert!(http.send(head).await);
        http.reset();
    }
    // Whatever was going to be published is there when a later publish is.
    queue.publish("whole").id().await;
    assert_eq!(queue.size().await, 1);
}

/// Slow clients must not keep others from being served.
#[tokio::test]
async fn many_slow_clients_do_not_disturb_a_quick_one() {
    let stack = STACK.lend().await;
    let queue = stack.queue("q").await;
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut http = RawHttp::connect(stack.api(0).listen()).await;
        assert!(http.send("GET /api/ns/q HTTP/1.1\r\nHost: ").await);
        slow.push(http);
    }
    let begin = Instant::now();
    queue.publish("x").id().await;
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
}
