//! Bodies that are too large.

use tidegate_testkit::{QueueClient, RawHttp, SharedStack, Stack, print_figure};

static STACK: SharedStack = SharedStack::new(|| Stack::builder().pumps(0));

const MIB: usize = 1024 * 1024;
const CLIENTS: usize = 50;
const GROWTH_MAX: u64 = 6 * MIB as u64;

fn token(queue: &QueueClient) -> (String, String) {
    ("X-Token".to_owned(), queue.token().to_owned())
}

#[tokio::test]
async fn a_body_of_one_mib_is_accepted_and_one_byte_more_is_refused() {
    let stack = STACK.acquire().await;
    let queue = stack.queue("q").await;
    queue.publish(vec![b'x'; MIB]).id().await;
    let answer = queue.publish(vec![b'x'; MIB + 1]).send().await.unwrap();
    assert_eq!(answer.expect(413).text(), r#"{"error":"body too large"}"#);
    assert_eq!(queue.size().await, 1);
    assert_eq!(queue.consume().job().await.unwrap().body, vec![b'x'; MIB]);
    stack.check_conservation().await;
}

#[tokio::test]
async fn the_limit_applies_to_chunked_bodies() {
    let stack = STACK.acquire().await;
    let queue = stack.queue("q").await;
    for (bytes, status) in [(MIB, 201), (MIB + 1, 413), (3 * MIB, 413)] {
        let mut http = RawHttp::connect(stack.api(0).listen()).await;
        let head = format!(
            "PUT {} HTTP/1.1\r\nHost: x\r\nX-Token: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
            queue.path(),
            queue.token()
        );
        assert!(http.send(head).await);
        let mut left = bytes;
        while left > 0 {
            let length = left.min(100_000);
            let chunk = format!("{length:x}\r\n{}\r\n", "x".repeat(length));
            // The server may close the connection once the body is too large.
            if !http.send(chunk).await {
                break;
            }
            left -= length;
        }
        http.send("0\r\n\r\n").await;
        let answer = http.answer().await.unwrap();
        assert_eq!(answer.status, status, "{bytes} bytes: {answer}");
    }
    assert_eq!(queue.size().await, 1);
}

#[tokio::test]
async fn the_limit_applies_to_each_job_of_a_bulk() {
    let stack = STACK.acquire().await;
    let queue = stack.queue("q").await;
    // A JSON string with its quotes.
    let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let whole: Vec<String> = (0..8).map(|_| text(MIB)).collect();
    assert_eq!(queue.publish_bulk(&whole).ids().await.len(), 8);
    let one_large = ["1".to_owned(), text(MIB + 1)];
    let answer = queue.publish_bulk(&one_large).send().await.unwrap();
    assert_eq!(answer.expect(413).text(), r#"{"error":"job too large"}"#);
    assert_eq!(queue.size().await, 8);
    assert_eq!(
        queue.consume().job().await.unwrap().body,
        whole[0].as_bytes()
    );
    queue.destroy().await;
    stack.check_conservation().await;
}

#[tokio::test]
async fn a_bulk_of_65_jobs_is_refused() {
    let stack = STACK.acquire().await;
    let queue = stack.queue("q").await;
    let bodies = vec!["1".to_owned(); 65];
    let answer = queue.publish_bulk(&bodies).send().await.unwrap();
    assert_eq!(answer.expect(400).text(), r#"{"error":"too many jobs"}"#);
    assert_eq!(queue.size().await, 0);
}

/// No other test may use the server, since its memory is measured.
#[tokio::test]
async fn announcing_a_gigabyte_takes_little_memory() {
    let stack = Stack::builder().pumps(0).start().await;
    let queue = stack.queue("q").await;
    // The first requests allocate what all later ones share.
    for _ in 0..CLIENTS {
        announce(&stack, &queue, "")
            .await
            .answer()
            .await
            .unwrap()
            .expect(413);
    }
    let before = stack.api(0).resident_bytes();
    for suffix in ["", "/job/x", "/bulk"] {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(announce(&stack, &queue, suffix).await);
        }
        for client in &mut clients {
            let answer = client.answer().await.unwrap();
            assert_eq!(answer.status, 413, "{suffix}: {answer}");
        }
        let growth = stack.api(0).resident_bytes().saturating_sub(before);
        print_figure(&format!(
            "{CLIENTS} clients that announce 1 GiB at {suffix:?}: {} KiB",
            growth / 1024
        ));
        assert!(growth < GROWTH_MAX, "{growth} bytes");
    }
    stack.finish().await;
}

/// Announces 1 GiB and sends the beginning of it.
async fn announce(stack: &Stack, queue: &QueueClient, suffix: &str) -> RawHttp {
    let mut http = RawHttp::connect(stack.api(0).listen()).await;
    let (name, value) = token(queue);
    let head = format!(
        "PUT {}{suffix} HTTP/1.1\r\nHost: x\r\n{name}: {value}\r\nContent-Length: {}\r\n\r\n",
        queue.path(),
        1024 * MIB
    );
    assert!(http.send(head).await);
    http.send(vec![b'['; 1000]).await;
    http
}

#[tokio::test]
async fn a_header_that_never_ends_is_refused() {
    let stack = STACK.acquire().await;
    let mut http = RawHttp::connect(stack.api(0).listen()).await;
    http.send("GET /api/ns/q HTTP/1.1\r\nHost: x\r\nX-Long: ")
        .await;
    let mut sent = 0;
    while sent < 4 * MIB && http.send(vec![b'x'; 10_000]).await {
        sent += 10_000;
    }
    if let Some(head) = http.head().await {
        assert!((400..500).contains(&head.status), "{head:?}");
    } else {
        // The connection was reset: bytes that the server has not read may destroy its answer.
        assert!(sent < 4 * MIB);
    }
}
