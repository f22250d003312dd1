//! Heads of requests that are too long, invalid, or ambiguous about the body.
//!
//! The parser refuses them before a handler could add a request id or a body: the answer is a status, and the
//! connection is closed.

use std::time::Duration;

use tidegate_testkit::{RawHttp, SharedStack, Stack};

static STACK: SharedStack = SharedStack::new(|| Stack::builder().pumps(0));

/// A server whose limit has room for the longest target.
static WIDE: SharedStack = SharedStack::new(|| {
    let config = "connections.header_bytes_max = 131072";
    Stack::builder().pumps(0).api_config(config)
});

const SIZE: &str = "/api/ns/q/size";
const SOON: Duration = Duration::from_secs(20);

/// Sends the bytes and expects these statuses; after the last one the connection is closed.
async fn expect(stream: &str, statuses: &[u16]) {
    expect_of(&STACK, stream, statuses).await;
}

async fn expect_of(stack: &SharedStack, stream: &str, statuses: &[u16]) {
    let stack = stack.acquire().await;
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

/// Expects that the parser refuses this, also behind a valid request.
async fn expect_refused(stream: &str, status: u16) {
    let good = format!("GET {SIZE} HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(stream, &[status]).await;
    expect(&format!("{good}{stream}"), &[200, status]).await;
}

fn with_headers(lines: &str) -> String {
    format!("GET {SIZE} HTTP/1.1\r\nConnection: close\r\n{lines}\r\n")
}

#[tokio::test]
async fn a_head_above_the_configured_length_is_refused() {
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
async fn invalid_http_is_answered_400() {
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

/// Two servers could disagree where the next request begins (request smuggling).
#[tokio::test]
async fn an_ambiguous_body_length_is_refused() {
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

/// With both headers the chunks count, and nothing behind them is read as another request: a proxy that went by the
/// length would attribute it to another client.
#[tokio::test]
async fn chunked_encoding_overrides_a_length_and_closes_the_connection() {
    let stack = STACK.acquire().await;
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
