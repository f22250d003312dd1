//! Large bulk publishes beside other requests.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate_testkit::{QueueClient, RawHttp, Stack, eventually, print_figure};

const MIB: usize = 1024 * 1024;
const SOON: Duration = Duration::from_secs(20);

/// Sends a request with a body, which is parsed as a whole and stores nothing.
async fn send(stack: &Stack, request: &str, body: String) -> RawHttp {
    let mut http = RawHttp::connect(stack.api(0).listen()).await;
    let head = format!(
        "{request}\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    assert!(http.send(head).await);
    http.send(body).await;
    http
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_requests_are_served_while_large_bulks_are_parsed() {
    const BULKS: usize = 8;
    /// If each request waited for the bulks that are parsed, fewer than one for each bulk would be served.
    const SERVED_MIN: usize = 10 * BULKS;
    // An unoptimized build needs 2 s to parse these bulks, and on a busy machine many times as long.
    let config = "requests.timeout = \"2m\"\n";
    let stack = Stack::builder().pumps(0).api_config(config).start().await;
    let queue = stack.queue("q").await;
    let key = queue.try_new_api_key(stack.api(0)).await.unwrap();
    let (path, token) = (queue.path(), queue.token());
    let bulk = format!("PUT {path}/bulk HTTP/1.1\r\nX-Token: {token}");
    let (namespace, name) = (queue.namespace(), queue.name());
    let batch = format!(
        "POST /v1/{namespace}/queues/{name}/jobs/batch HTTP/1.1\r\nAuthorization: Bearer {key}"
    );
    let begin = Instant::now();
    let sending = join_all((0..BULKS).map(|number| {
        let numbers = format!("[{}1]", "1,".repeat(2 * MIB));
        match number % 2 {
            0 => send(&stack, &bulk, numbers),
            _ => send(
                &stack,
                &batch,
                format!(r#"{{"jobs":[{{"payload":{numbers}}}]}}"#),
            ),
        }
    }));
    let mut bulks = sending.await;
    let sent = begin.elapsed();
    let parsing = async {
        for (number, bulk) in bulks.iter_mut().enumerate() {
            let answer = bulk.answer().await.unwrap();
            match number % 2 {
                0 => assert_eq!(answer.expect(400).text(), r#"{"error":"too many jobs"}"#),
                _ => assert_eq!(answer.expect(413).json()["code"], "payload_too_large"),
            }
        }
    };
    let (mut served, mut slowest) = (0, Duration::ZERO);
    let asking = async {
        let mut http = RawHttp::connect(stack.api(0).listen()).await;
        loop {
            let begin = Instant::now();
            http.request("GET", "/healthz", &[], b"").await;
            http.answer().await.unwrap().expect(200);
            slowest = slowest.max(begin.elapsed());
            served += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = parsing => {}
        () = asking => {}
    }
    let took = begin.elapsed();
    print_figure(&format!(
        "{BULKS} bulks of 4 MiB: sent in {sent:?}, answered in {took:?}; {served} /healthz, the slowest took {slowest:?}"
    ));
    assert!(served > SERVED_MIN, "{served}");
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_of_all_bodies_is_bounded_and_freed() {
    // Seven eighths of the budget are for bodies.
    let config = "requests.in_flight_bytes_max = 8388608\nrequests.bulk_bytes_max = 6291456\n";
    let stack = Stack::builder().pumps(0).api_config(config).start().await;
    let queue = stack.queue("q").await;
    let api = stack.api(0);
    let in_flight = async || {
        let name = "tidegate_http_in_flight_bytes";
        api.metric_with_label(name, "what=\"body\"").await
    };
    let until_in_flight = async |least: usize, most: usize| {
        eventually("the bytes in flight", SOON, async || {
            let found = in_flight().await;
            match (least as f64..=most as f64).contains(&found) {
                true => Ok(()),
                false => Err(found),
            }
        })
        .await;
    };
    // Announced bytes are not counted before they arrive.
    let mut announced = Vec::new();
    for _ in 0..8 {
        announced.push(begin_bulk(&stack, &queue, 6 * MIB, 100).await);
    }
    queue.publish(vec![b'x'; MIB]).id().await;
    until_in_flight(0, 0).await;
    let first = begin_bulk(&stack, &queue, 6 * MIB, 5 * MIB).await;
    until_in_flight(5 * MIB, 5 * MIB).await;
    let mut second = begin_bulk(&stack, &queue, 6 * MIB, 3 * MIB).await;
    let refused = second.answer().await.unwrap();
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("connection"), Some("close"));
    let text = r#"{"error":"too many bytes are being received, please retry later"}"#;
    assert_eq!(refused.expect(503).text(), text);
    // Smaller bodies have room beside it.
    queue.publish(vec![b'x'; MIB]).id().await;
    let counted = api.metric("tidegate_http_over_budget_total").await;
    assert_eq!(counted, 1.0);
    drop(first);
    until_in_flight(0, 0).await;
    let jobs = vec!["1".to_owned(); 3];
    assert_eq!(queue.publish_bulk(&jobs).ids().await.len(), 3);
    stack.finish().await;
}

/// Announces a bulk of `bytes`, and sends `sent` of them.
async fn begin_bulk(stack: &Stack, queue: &QueueClient, bytes: usize, sent: usize) -> RawHttp {
    let mut http = RawHttp::connect(stack.api(0).listen()).await;
    let head = format!(
        "PUT {}/bulk HTTP/1.1\r\nHost: x\r\nX-Token: {}\r\nContent-Length: {bytes}\r\n\r\n",
        queue.path(),
        queue.token()
    );
    assert!(http.send(head).await);
    http.send(vec![b'['; sent]).await;
    http
}
