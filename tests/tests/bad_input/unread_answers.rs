//! Lists and payloads that clients do not read, and how much a list reads.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::{
    Daemon, NativeClient, RawHttp, RedisControl, Stack, eventually, print_figure,
};

const MIB: u64 = 1024 * 1024;
const SOON: Duration = Duration::from_secs(90);
/// A page, and the rest of its last job.
const PAGE_BYTES_MAX: usize = 1024 * 1024 + 64 * 1024;

const CLIENTS: usize = 60;
/// All jobs together are 4 MB as JSON. They take little in Redis, since their attributes are compressed.
const JOBS: usize = 500;
const JOBS_PER_BATCH: usize = 100;
const ATTRIBUTES: usize = 7;
const ATTRIBUTE_BYTES: usize = 1000;

const UNREAD_MAX: u64 = 16 * MIB;
const CONFIG: &str = "requests.unread_bytes_max = 16777216\nconnections.write_timeout = \"5m\"";
/// For what counts, the buffers of connections, and what the allocator keeps. Without a bound it is more than 200 MiB.
const RESIDENT_MAX: u64 = 3 * UNREAD_MAX;

async fn publish_jobs(client: &NativeClient) {
    let attribute = |n: usize| (format!("attribute-{n}"), json!("x".repeat(ATTRIBUTE_BYTES)));
    let attributes: serde_json::Map<String, Value> = (0..ATTRIBUTES).map(attribute).collect();
    let job = json!({"payload": "x", "attributes": attributes});
    let batch = json!({"jobs": vec![job; JOBS_PER_BATCH]});
    for _ in 0..JOBS / JOBS_PER_BATCH {
        let published = client.call("POST", "/queues/q/jobs/batch", &batch);
        published.await.expect(200);
    }
}

/// No other test may use the server, since its memory is measured.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_have_pages_of_a_mebibyte_and_are_bounded_if_they_are_not_read() {
    let builder = Stack::builder().pumps(0).api_config(CONFIG);
    let stack = builder.start().await;
    let api = stack.api(0);
    let client = NativeClient::new(api, "shop").await;
    publish_jobs(&client).await;

    // Pages have up to 1 MiB, and together all jobs.
    let (mut found, mut pages, mut cursor) = (HashSet::new(), 0, String::new());
    loop {
        let path = format!("/queues/q/jobs?limit=1000{cursor}");
        let answer = client.get(&path).await.expect(200);
        assert!(answer.body.len() <= PAGE_BYTES_MAX, "{}", answer.body.len());
        pages += 1;
        let page = answer.json();
        for job in page["items"].as_array().unwrap() {
            assert!(found.insert(job["id"].as_str().unwrap().to_owned()));
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(found.len(), JOBS);
    assert!((4..=8).contains(&pages), "{pages} pages");

    let before = api.resident_bytes();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let target = "/v1/shop/queues/q/jobs?limit=1000";
        let (status, http) = get_unread(api, target, bearer(&client)).await;
        assert!([200, 503].contains(&status), "{status}");
        clients.push(http);
    }
    let peak = api.resident_bytes_peak().saturating_sub(before);
    print_figure(&format!(
        "{CLIENTS} lists of 4 MB that are not read: {} MiB at the peak",
        peak / MIB
    ));
    assert!(peak <= RESIDENT_MAX, "{peak}");
    stack.finish().await;
}

fn bearer(client: &NativeClient) -> (&'static str, String) {
    ("Authorization", format!("Bearer {}", client.key()))
}

/// Sends a request, and reads only the head of the answer.
async fn get_unread(api: &Daemon, target: &str, credential: (&str, String)) -> (u16, RawHttp) {
    let headers = [(credential.0.to_owned(), credential.1)];
    let mut http = RawHttp::connect_with_small_buffer(api.listen()).await;
    http.request("GET", target, &headers, b"").await;
    let head = http.head().await.unwrap();
    if head.status == 503 {
        let has_retry = |(name, _): &(String, String)| name == "retry-after";
        assert!(head.headers.iter().any(has_retry), "{:?}", head.headers);
    }
    (head.status, http)
}

/// The kernel takes up to 4 MiB of each answer. No other test may use the server, since its memory is measured.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_that_are_not_read_are_bounded_on_both_wires_and_their_memory_goes_back() {
    const CLIENTS: usize = 12;
    const PAYLOAD_BYTES: usize = 7 * 1024 * 1024;
    let config = format!("requests.job_bytes_max = {PAYLOAD_BYTES}\n{CONFIG}");
    let stack = Stack::builder().pumps(0).api_config(&config).start().await;
    let api = stack.api(0);
    let queue = stack.queue("q").await;
    let client = NativeClient::new(api, queue.namespace()).await;
    let token = || ("X-Token", queue.token().to_owned());
    let payload = "x".repeat(PAYLOAD_BYTES);
    let published = client
        .publish(queue.name(), "", &payload)
        .await
        .expect(201)
        .json();
    let id = published["id"].as_str().unwrap();
    let before = api.resident_bytes();
    let mut unread = Vec::new();
    let native = format!(
        "/v1/{}/queues/{}/jobs/{id}/payload",
        queue.namespace(),
        queue.name()
    );
    let peek = format!("{}/job/{id}", queue.path());
    for (target, credential) in [(&native, bearer(&client)), (&peek, token())] {
        let mut refused = 0;
        for _ in 0..CLIENTS {
            let (status, http) = get_unread(api, target, credential.clone()).await;
            assert!([200, 503].contains(&status), "{status}");
            refused += usize::from(status == 503);
            unread.push(http);
        }
        assert!(refused >= CLIENTS - 2, "{refused} were refused: {target}");
    }
    let name = "tidegate_http_in_flight_bytes";
    let counted = api.metric_with_label(name, "what=\"answer\"").await;
    assert!(counted > 0.0 && counted <= UNREAD_MAX as f64, "{counted}");
    // Others are served.
    client.publish("other", "", "x").await.expect(201);
    assert_eq!(client.reserve("other", 1).await.len(), 1);

    drop(unread);
    eventually("the memory goes back", SOON, async || {
        match api.resident_bytes().saturating_sub(before) {
            kept if kept <= UNREAD_MAX / 2 => Ok(()),
            kept => Err(kept),
        }
    })
    .await;
    let (status, _) = get_unread(api, &peek, token()).await;
    assert_eq!(status, 200);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_schedules_reads_only_its_page() {
    const SCHEDULES: usize = 60;
    const PAYLOAD_BYTES: usize = 15_000;
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let payload = "x".repeat(PAYLOAD_BYTES);
    let schedule = json!({"queue": "q", "every": "1h", "job": {"payload": payload}});
    for n in 0..SCHEDULES {
        let path = format!("/schedules/schedule-{n:02}");
        client.call("PUT", &path, &schedule).await.expect(201);
    }
    let mut control = RedisControl::connect(&stack.redis.url()).await;
    let mut sent = async || {
        let info = control.info().await;
        info["total_net_output_bytes"].parse::<u64>().unwrap()
    };
    let before = sent().await;
    let page = client.get("/schedules?limit=1").await.expect(200).json();
    let read = sent().await - before;
    assert_eq!(page["items"][0]["name"], "schedule-00");
    assert!(read < 300_000, "{read} bytes were read for one schedule");

    let (mut names, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let path = format!("/schedules?limit=1000{cursor}");
        let answer = client.get(&path).await.expect(200);
        assert!(answer.body.len() <= PAGE_BYTES_MAX, "{}", answer.body.len());
        pages += 1;
        let page = answer.json();
        let items = page["items"].as_array().unwrap().iter();
        names.extend(items.map(|item| item["name"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(names.len(), SCHEDULES);
    assert!(names.is_sorted());
    assert!(pages > 1, "{pages} pages");
    stack.finish().await;
}
