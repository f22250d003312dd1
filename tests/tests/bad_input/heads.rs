//! Heads of requests that are too long, or say two things about the body.
//!
//! What is no request is refused by the parser, before there is anything to give it a request id or a
//! body: the status is all that there is to say, and the connection ends.

use std::time::Duration;

use tidegate_testkit::{RawHttp, SharedStack, Stack};

static STACK: SharedStack = SharedStack::new(|| Stack::builder().pumps(0));

/// With room for the longest target.
static WIDE: SharedStack = SharedStack::new(|| {
    let config = "connections.header_bytes_max = 131072";
    Stack::builder().pumps(0).api_config(config)
});

const SIZE: &str = "/api/ns/q/size";
const SOON: Duration = Duration::from_secs(20);

/// Sends the bytes and expects these statuses; the last one ends the connection.
async fn expect(stream: &str, statuses: &[u16]) {
    expect_of(&STACK, stream, statuses).await;
}

async fn expect_of(stack: &SharedStack, stream: &str, statuses: &[u16]) {
    let stack = stack.lend().await;
    let shown: String = stream.chars().take(300).collect();
    let mut http = RawHttp::connect(stack.api(0).listen()).await;
    assert!(http.send(stream).await);
    for status in statuses {
        let answer = http.answer().await;
        let answer = answer.unwrap_or_else(|| panic!("no answer {status}: {shown}"));
        assert_eq!(answer.status, *status, "{shown}: {answer}");
    }
    assert!(http.is_closed_within(SOON).await, "{shown}");
}

/// What the parser refuses, after a request that is fine.
async fn expect_refused(stream: &str, status: u16) {
    let good = format!("GET {SIZE} HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(stream, &[status]).await;
    expect(&format!("{good}{stream}"), &[200, status]).await;
}

fn with_headers(lines: &str) -> String {
    format!("GET {SIZE} HTTP/1.1\r\nConnection: close\r\n{lines}\r\n")
}

#[tokio::test]
async fn a_head_is_at_most_as_long_as_the_settings_say() {
    let long = |bytes: usize| with_headers(&format!("X-Long: {}\r\n", "x".repeat(bytes)));
    expect(&long(32_000), &[200]).await;
    expect_refused(&long(32_768), 431).await;
    let line = format!("GET {SIZE}?{} HTTP/1.1\r\n\r\n", "x".repeat(32_768));
    expect_refused(&line, 431).await;
}

#[tokio::test]
async fn a_head_has_at_most_100_headers() {
    let many = |count: usize| {
        let lines = (0..count).map(|number| format!("X-{number}: x\r\n"));
        with_headers(&lines.collect::<String>())
    };
    expect(&many(99), &[200]).await;
    expect_refused(&many(100), 431).await;
}

#[tokio::test]
async fn a_target_has_less_than_64_kib() {
    let get = |bytes: usize| {
        let path = format!("{SIZE}?{}", "x".repeat(bytes - SIZE.len() - 1));
        format!("GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n")
    };
    expect_of(&WIDE, &get(65_534), &[200]).await;
    expect_of(&WIDE, &get(65_535), &[414]).await;
}

#[tokio::test]
async fn what_is_no_http_is_a_bad_request() {
    for stream in [
        "hello\r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "GET /api/ns/\u{7f}q HTTP/1.1\r\n\r\n",
        &with_headers("no colon\r\n"),
        &with_headers(": no name\r\n"),
        &with_headers("Space : x\r\n"),
        &with_headers("X-Folded: x\r\n y\r\n"),
        &with_headers("X-Nul: \0\r\n"),
    ] {
        expect_refused(stream, 400).await;
    }
}

/// Two readers of such a request could take different parts of it for the next one.
#[tokio::test]
async fn a_head_that_says_two_things_about_the_body_is_refused() {
    let put = |lines: &str| format!("PUT /api/ns/q HTTP/1.1\r\nHost: x\r\n{lines}\r\n");
    for lines in [
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: \r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: xchunked\r\n",
    ] {
        expect_refused(&put(lines), 400).await;
    }
    let old = "PUT /api/ns/q HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    expect_refused(old, 400).await;
}

/// Where both are there, the chunks count, and nothing behind them is taken for another request: a
/// proxy that counted by the length would think that somebody else had sent it.
#[tokio::test]
async fn chunks_count_more_than_a_length_and_end_the_connection() {
    let stack = STACK.lend().await;
    let queue = stack.queue("q").await;
    let (path, token) = (queue.path(), queue.token());
    for lines in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    ] {
        let head = format!("PUT {path} HTTP/1.1\r\nX-Token: {token}\r\n{lines}\r\n");
        let behind = format!("DELETE {path} HTTP/1.1\r\nX-Token: {token}\r\n\r\n");
        let mut http = RawHttp::connect(stack.api(0).listen()).await;
        let stream = format!("{head}5\r\nhello\r\n0\r\n\r\n{behind}");
        assert!(http.send(stream).await);
        http.answer().await.unwrap().expect(201);
        assert!(http.is_closed_within(SOON).await);
        assert_eq!(queue.consume().job().await.unwrap().text(), "hello");
    }
}
