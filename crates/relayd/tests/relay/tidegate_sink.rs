//! A queue of a Tidegate as the sink, with two relay daemons of which one is killed.

use std::time::Duration;

use serde_json::json;
use tidegate_testkit::fault_proxy::{DirectionConditions, NetworkConditions};
use tidegate_testkit::{FaultProxy, Stack, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::fixture::{LIMIT, QUEUE, RelayDaemon, RelayedQueue, SERVER, SHORT};

const SINK_QUEUE: &str = "arrived";
const COUNT: usize = 3000;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_relay_loses_and_repeats_no_job() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "take-over").await;
    let sink = format!("{}time_limit = \"2s\"\n", queue.as_end("sink", SINK_QUEUE));
    // Small batches, so that the killed relay holds jobs.
    let settings = [
        SHORT,
        "batch = 16\nconcurrency = 128\n",
        &queue.as_end("source", QUEUE),
        &sink,
    ];
    let (first, second) = (
        RelayDaemon::start(&settings).await,
        RelayDaemon::start(&settings).await,
    );
    let ids = queue.publish(0..COUNT).await;
    eventually("both relays have delivered jobs", LIMIT, async || {
        let counts = [first.status().await, second.status().await]
            .map(|status| status["confirmed"].as_u64());
        if counts.iter().all(|count| *count > Some(20)) {
            Ok(())
        } else {
            Err(format!("{counts:?}"))
        }
    })
    .await;
    first.daemon.kill();
    queue.drained().await;
    assert_eq!(queue.counts(SINK_QUEUE).await["ready"], COUNT);
    let job = queue.native.reserve(SINK_QUEUE, 1).await.remove(0);
    let key = job["key"].as_str().unwrap();
    assert!(ids.contains(key), "{job}");
    assert_eq!(job["content_type"], "text/plain");
    let status = second.status().await;
    assert_eq!(
        (&status["rejected"], &status["dead"]),
        (&json!(0), &json!(0)),
        "{status}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_wait_for_a_queue_that_is_closed_and_a_stop_finishes_what_is_in_flight() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "closed").await;
    queue.set_closed(SINK_QUEUE, true).await;
    let sink = format!("{}time_limit = \"2s\"\n", queue.as_end("sink", SINK_QUEUE));
    let relay = RelayDaemon::start(&[SHORT, &queue.as_end("source", QUEUE), &sink]).await;
    queue.publish(0..500).await;
    relay
        .status_has("the breaker is open", |status| status["breaker"] == "open")
        .await;
    queue.set_closed(SINK_QUEUE, false).await;
    relay
        .status_has("some jobs arrived", |status| {
            status["confirmed"].as_u64() > Some(0)
        })
        .await;
    relay.daemon.stop(LIMIT).await;
    let counts = queue.counts(QUEUE).await;
    assert_eq!(
        counts["leased"], 0,
        "a relay that stops holds no job: {counts}"
    );
    relay.daemon.restart().await;
    queue.drained().await;
    assert_eq!(queue.counts(SINK_QUEUE).await["ready"], 500);
}

/// Each request takes 40 ms: one for each job of a batch would take longer than the time limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_too_large_for_the_sink_is_dead_and_the_others_of_its_batch_arrive() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "too-large").await;
    let limits = "[requests]\njob_bytes_max = 4096\n";
    let small = Stack::builder().pumps(0).api_config(limits).start().await;
    let mut arrived = RelayedQueue::new(&small, "small").await;
    let proxy = FaultProxy::start(small.api(0).listen(), 1).await;
    let slow = DirectionConditions {
        delay: Duration::from_millis(40),
        ..DirectionConditions::default()
    };
    proxy.set(NetworkConditions {
        to_server: slow,
        ..NetworkConditions::default()
    });
    arrived.url = format!("http://{}", proxy.address());
    let large = queue
        .native
        .publish(QUEUE, "", &"x".repeat(10_000))
        .await
        .expect(201)
        .json();
    queue.publish(0..600).await;
    let sink = format!(
        "{}time_limit = \"2s\"\n",
        arrived.as_end("sink", SINK_QUEUE)
    );
    let relay = RelayDaemon::start(&[SHORT, &queue.as_end("source", QUEUE), &sink]).await;
    relay
        .status_has("all but one are confirmed, and each is settled", |status| {
            status["confirmed"].as_u64() >= Some(600) && status["dead"] == 1 && status["held"] == 0
        })
        .await;
    let job = queue.job(large["id"].as_str().unwrap()).await;
    assert_eq!(job["state"], "dead", "{job}");
    assert_eq!(arrived.counts(SINK_QUEUE).await["ready"], 600);
    assert_eq!(relay.status().await["unavailable"], 0);
    let log = relay.daemon.log();
    assert_eq!(log.matches("jobs are dead").count(), 1, "{log}");
}

/// Its answers have statuses with which a Tidegate rejects a job for ever.
#[tokio::test(flavor = "multi_thread")]
async fn no_job_is_dead_because_the_url_is_that_of_another_server() {
    let stack = SERVER.acquire().await;
    for status in ["400 Bad Request", "413 Content Too Large"] {
        let queue = RelayedQueue::new(&stack, &status[..3]).await;
        queue.publish(0..20).await;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let mut other = RelayedQueue::new(&stack, "other-server").await;
        other.url = format!("http://{}", listener.local_addr().unwrap());
        let answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\n\r\n<html>no</html>");
        let serving = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 64 * 1024];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        let sink = format!("{}time_limit = \"2s\"\n", other.as_end("sink", SINK_QUEUE));
        let relay = RelayDaemon::start(&[SHORT, &queue.as_end("source", QUEUE), &sink]).await;
        relay
            .status_has("the breaker is open", |status| status["breaker"] == "open")
            .await;
        let status = relay.status().await;
        assert_eq!(
            (&status["rejected"], &status["dead"]),
            (&json!(0), &json!(0)),
            "{status}"
        );
        assert_eq!(queue.counts(QUEUE).await["dead"], 0);
        serving.abort();
    }
}
