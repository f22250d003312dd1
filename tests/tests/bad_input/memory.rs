//! The memory that clients without a token can take, and that it is freed.

use std::time::Duration;

use tidegate_testkit::{RawHttp, Stack, eventually, print_figure};

const MIB: u64 = 1024 * 1024;
const SOON: Duration = Duration::from_secs(20);

/// The number of connections, and the part of a header that each of them sends.
const CLIENTS: usize = 2000;
const HEADER_BYTES: usize = 30_000;

/// An eighth of the bytes is for headers: 16 MiB. They are waited for longer than the test takes.
const CONFIG: &str =
    "requests.in_flight_bytes_max = 134217728\nconnections.header_timeout = \"5m\"";
const HEADERS_MAX: f64 = 16.0 * 1024.0 * 1024.0;

/// The buffers of the connections, twice the counted bytes, and what the allocator keeps.
const GROWTH_MAX: u64 = 128 * MIB;
const KEPT_MAX: u64 = 96 * MIB;

/// No other test may use the server, since its memory is measured.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_of_endless_headers_is_bounded_and_freed() {
    let stack = Stack::builder().pumps(0).api_config(CONFIG).start().await;
    let api = stack.api(0);
    let in_flight = async || {
        let name = "tidegate_http_in_flight_bytes";
        api.metric_with_label(name, "what=\"header\"").await
    };
    assert_eq!(in_flight().await, 0.0);
    let before = api.resident_bytes();
    let mut kept = Vec::new();
    for round in 1..=3 {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let mut http = RawHttp::connect(api.listen()).await;
            http.send("GET /api/ns/q HTTP/1.1\r\nX-Long: ").await;
            http.send(vec![b'x'; HEADER_BYTES]).await;
            clients.push(http);
        }
        let counted = in_flight().await;
        assert!(
            counted > HEADERS_MAX / 2.0 && counted <= HEADERS_MAX,
            "{counted}"
        );
        let peak = api.resident_bytes_peak() - before;
        drop(clients);
        eventually("no bytes are counted", SOON, async || {
            match in_flight().await {
                0.0 => Ok(()),
                bytes => Err(bytes),
            }
        })
        .await;
        eventually("the connections are closed", SOON, async || {
            let open = api
                .metric_with_label("tidegate_http_connections", "public")
                .await;
            if open == 0.0 { Ok(()) } else { Err(open) }
        })
        .await;
        let after = api.resident_bytes().saturating_sub(before);
        kept.push(after);
        print_figure(&format!(
            "{CLIENTS} headers of {HEADER_BYTES} bytes, round {round}: {} MiB at the peak, {} MiB afterwards",
            peak / MIB,
            after / MIB
        ));
        assert!(peak < GROWTH_MAX, "{peak} bytes at the peak");
        assert!(after < KEPT_MAX, "{after} bytes afterwards");
    }
    assert!(api.metric("tidegate_http_over_budget_total").await > 0.0);
    stack.finish().await;
}

#[tokio::test]
async fn a_header_of_8_kib_is_accepted_while_longer_ones_use_up_the_budget() {
    let config = "requests.in_flight_bytes_max = 1048576\nrequests.bulk_bytes_max = 65536\n\
                  requests.job_bytes_max = 65536";
    let stack = Stack::builder().pumps(0).api_config(config).start().await;
    let api = stack.api(0);
    let mut clients = Vec::new();
    // 128 KiB are for headers, so some of these are closed.
    for _ in 0..20 {
        let mut http = RawHttp::connect(api.listen()).await;
        http.send("GET /api/ns/q HTTP/1.1\r\nX-Long: ").await;
        http.send(vec![b'x'; HEADER_BYTES]).await;
        clients.push(http);
    }
    eventually("some are closed", SOON, async || {
        match api.metric("tidegate_http_over_budget_total").await {
            0.0 => Err(0.0),
            _ => Ok(()),
        }
    })
    .await;
    let mut http = RawHttp::connect(api.listen()).await;
    http.send("GET /healthz HTTP/1.1\r\nX-Usual: ").await;
    http.send(vec![b'x'; 8000]).await;
    http.send("\r\n\r\n").await;
    http.answer().await.unwrap().expect(200);
    // A body behind a short header does not count as header.
    let queue = stack.queue("q").await;
    for _ in 0..50 {
        queue.publish(vec![b'x'; 40_000]).id().await;
    }
    drop(clients);
    stack.finish().await;
}

#[tokio::test]
async fn headers_are_counted_until_their_requests_are_answered() {
    const HEADERS_MAX: f64 = 1024.0 * 1024.0;
    let config = "requests.in_flight_bytes_max = 8388608\nrequests.bulk_bytes_max = 65536\n\
                  requests.job_bytes_max = 65536";
    let stack = Stack::builder().pumps(0).api_config(config).start().await;
    let api = stack.api(0);
    let in_flight = async || {
        let name = "tidegate_http_in_flight_bytes";
        api.metric_with_label(name, "what=\"header\"").await
    };
    let mut clients = Vec::new();
    let header = format!(
        "GET /api/ns/q HTTP/1.1\r\nX-Long: {}\r\nContent-Length: 10\r\n\r\n",
        "x".repeat(HEADER_BYTES)
    );
    for _ in 0..100 {
        let mut http = RawHttp::connect(api.listen()).await;
        http.send(header.as_str()).await;
        clients.push(http);
    }
    eventually(
        "there is no room for more",
        SOON,
        async || match in_flight().await {
            bytes if bytes > HEADERS_MAX / 2.0 => Ok(()),
            bytes => Err(bytes),
        },
    )
    .await;
    assert!(in_flight().await <= HEADERS_MAX);
    for http in &mut clients {
        // Those that were not closed are answered that their token is missing.
        http.send("0123456789").await;
        if let Some(answer) = http.answer().await {
            answer.expect(401);
        }
    }
    eventually("no bytes are counted", SOON, async || {
        match in_flight().await {
            0.0 => Ok(()),
            bytes => Err(bytes),
        }
    })
    .await;
    stack.finish().await;
}

/// They are answered 401, and their bodies are read and discarded, those of all clients at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_of_bodies_without_a_token_is_bounded() {
    const SENDERS: usize = 400;
    const BODY_BYTES: usize = 4 * 1024 * 1024;
    const PART_BYTES: usize = 512 * 1024;
    // 64 KiB for each client, and three times that for the allocator.
    const GROWTH_MAX: u64 = 100 * MIB;
    let stack = Stack::builder().pumps(0).start().await;
    let api = stack.api(0);
    let before = api.resident_bytes();
    let mut clients = Vec::new();
    for _ in 0..SENDERS {
        let mut http = RawHttp::connect(api.listen()).await;
        let head = format!("PUT /api/ns/q HTTP/1.1\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
        http.send(head).await;
        clients.push(http);
    }
    let part = vec![b'x'; PART_BYTES];
    for _ in 1..BODY_BYTES / PART_BYTES {
        for http in &mut clients {
            http.send(&part).await;
        }
    }
    for http in &mut clients {
        assert_eq!(http.head().await.unwrap().status, 401);
    }
    let peak = api.resident_bytes_peak() - before;
    print_figure(&format!(
        "{SENDERS} bodies of 4 MiB without a token: {} MiB at the peak",
        peak / MIB
    ));
    assert!(peak < GROWTH_MAX, "{peak} bytes at the peak");
    drop(clients);
    stack.finish().await;
}
