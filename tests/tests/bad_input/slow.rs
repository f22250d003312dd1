//! Slow clients.

use std::time::{Duration, Instant};

use tidegate_testkit::{RawHttp, SharedStack, Stack, eventually, print_figure};
use tokio::time::interval;

const HEADER_TIMEOUT: Duration = Duration::from_millis(500);
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
const BODY_TIMEOUT: Duration = Duration::from_millis(500);
const SOON: Duration = Duration::from_secs(20);
const SLACK: Duration = Duration::from_millis(1500);

static STACK: SharedStack = SharedStack::new(|| {
    Stack::builder().pumps(0).api_config(
        "connections.header_timeout = \"500ms\"\n\
         connections.idle_timeout = \"2s\"\n\
         requests.body_timeout = \"500ms\"",
    )
});

#[tokio::test]
async fn a_connection_with_a_trickling_header_is_closed() {
    let stack = STACK.acquire().await;
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
async fn a_connection_with_an_incomplete_header_is_closed() {
    let stack = STACK.acquire().await;
    let mut http = RawHttp::connect(stack.api(0).listen()).await;
    let begin = Instant::now();
    assert!(http.send("GET /api/ns/q HTTP/1.1\r\nHost: ").await);
    // An answer may come before the end.
    http.rest().await;
    let lasted = begin.elapsed();
    assert!(
        lasted >= HEADER_TIMEOUT && lasted < HEADER_TIMEOUT + SLACK,
        "{lasted:?}"
    );
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_the_idle_timeout() {
    let stack = STACK.acquire().await;
    let mut http = RawHttp::connect(stack.api(0).listen()).await;
    for _ in 0..2 {
        assert!(!http.is_closed_within(HEADER_TIMEOUT * 2).await);
        http.request("GET", "/api/ns/q/size", &[], b"").await;
        http.answer().await.unwrap().expect(200);
    }
    assert!(http.is_closed_within(IDLE_TIMEOUT + SLACK).await);
}

#[tokio::test]
async fn an_incomplete_body_is_answered_400() {
    let stack = STACK.acquire().await;
    let queue = stack.queue("q").await;
    for (method, suffix) in [
        ("PUT", ""),
        ("PUT", "/bulk"),
        ("PUT", "/job/x"),
        // The body is ignored, and waited for all the same.
        ("GET", "?timeout=60"),
        ("DELETE", "/job/x"),
    ] {
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
async fn a_trickling_body_is_answered_400() {
    let stack = STACK.acquire().await;
    let queue = stack.queue("q").await;
    for suffix in ["", "/bulk"] {
        let mut http = RawHttp::connect(stack.api(0).listen()).await;
        let head = format!(
            "PUT {}{suffix} HTTP/1.1\r\nHost: x\r\nX-Token: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
            queue.path(),
            queue.token()
        );
        let begin = Instant::now();
        assert!(http.send(head).await);
        let mut ticks = interval(BODY_TIMEOUT / 10);
        while begin.elapsed() < BODY_TIMEOUT * 4 && http.send("1\r\n[\r\n").await {
            ticks.tick().await;
        }
        // The answer came before the body could have ended.
        let stopped = Instant::now();
        let answer = http.answer().await.unwrap().expect(400);
        let expected = r#"{"error":"failed to read body"}"#;
        assert_eq!(answer.text(), expected);
        assert!(stopped.elapsed() < BODY_TIMEOUT / 2);
    }
    assert_eq!(queue.size().await, 0);
}

/// The jobs were delivered to the connection, so they return when their lease expires.
#[tokio::test]
async fn a_consumer_that_does_not_read_is_disconnected_and_its_jobs_return() {
    const JOBS: usize = 16;
    let config = "connections.write_timeout = \"500ms\"";
    let stack = Stack::builder().api_config(config).start().await;
    let queue = stack.queue("q").await;
    for _ in 0..JOBS {
        queue.publish(vec![b'x'; 1024 * 1024]).tries(2).id().await;
    }
    let connections = async || {
        let name = "tidegate_http_connections";
        stack.api(0).metric_with_label(name, "public").await
    };
    let before = connections().await;
    let mut http = RawHttp::connect(stack.api(0).listen()).await;
    let token = [("X-Token".to_owned(), queue.token().to_owned())];
    let target = format!("{}?count={JOBS}&ttr=1", queue.path());
    http.request("GET", &target, &token, b"").await;
    assert_eq!(http.head().await.unwrap().status, 200);
    let cut = async || match connections().await {
        now if now <= before => Ok(()),
        now => Err(now),
    };
    eventually("the connection is closed", Duration::from_secs(60), cut).await;
    let back = async || match queue.size().await as usize {
        JOBS => Ok(()),
        size => Err(size),
    };
    eventually("the jobs are back", Duration::from_secs(60), back).await;
    // The client can still read what the system had buffered.
    let received = http.rest().await;
    assert!(received.len() < JOBS * 1024 * 1024, "{}", received.len());
    let job = queue.consume().job().await.unwrap();
    assert_eq!((job.body.len(), job.remain_tries), (1024 * 1024, 0));
    stack.finish().await;
}

/// One client reads fast enough and the other does not. Both read all the time.
#[tokio::test]
async fn a_consumer_that_reads_too_slowly_is_disconnected() {
    const JOBS: usize = 16;
    const BYTES: usize = 1024 * 1024;
    const TICK: Duration = Duration::from_millis(10);
    /// Twice what the slow client reads within the timeout: what the system had buffered of the answer is discarded.
    const RECEIVED_MAX: usize = BYTES;
    let config = "connections.write_timeout = \"2s\"";
    let stack = Stack::builder().pumps(0).api_config(config).start().await;
    let queue = stack.queue("q").await;
    let token = [("X-Token".to_owned(), queue.token().to_owned())];
    let target = format!("{}?count={JOBS}&ttr=600", queue.path());
    // A hundred times as fast as required, and at most half as fast.
    for (bytes_a_tick, is_cut) in [(BYTES / 2, false), (BYTES / 400, true)] {
        for _ in 0..JOBS {
            queue.publish(vec![b'x'; BYTES]).id().await;
        }
        let mut http = RawHttp::connect_with_small_buffer(stack.api(0).listen()).await;
        http.request("GET", &target, &token, b"").await;
        let begin = Instant::now();
        let (mut received, mut has_ended) = (0, false);
        while received < JOBS * BYTES && begin.elapsed() < SOON {
            let mut left = bytes_a_tick;
            while left > 0 && !has_ended {
                match http.read_at_most(left).await {
                    Some(bytes) => (left, received) = (left - bytes, received + bytes),
                    None => has_ended = true,
                }
            }
            if has_ended {
                break;
            }
            tokio::time::sleep(TICK).await;
        }
        let took = begin.elapsed();
        assert_eq!(has_ended, is_cut, "{received} bytes in {took:?}");
        print_figure(&format!("{received} bytes in {took:?}, cut: {has_ended}"));
        assert_eq!(
            received < RECEIVED_MAX,
            is_cut,
            "{received} bytes in {took:?}"
        );
    }
    stack.finish().await;
}

#[tokio::test]
async fn a_client_that_disconnects_within_a_body_publishes_nothing() {
    let stack = STACK.acquire().await;
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
    // If the earlier bodies were published, they would be stored before this job.
    queue.publish("whole").id().await;
    assert_eq!(queue.size().await, 1);
}

/// Slow clients must not keep others from being served.
#[tokio::test]
async fn many_slow_clients_do_not_delay_a_fast_one() {
    let stack = STACK.acquire().await;
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
