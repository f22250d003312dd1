//! A queue of the lmstfy wire drains into a Tidegate, while jobs are published and a relay is killed.

use std::time::Duration;

use tidegate_testkit::{QueueClient, Stack, eventually, print_figure};

use crate::fixture::{QUEUE, RelayDaemon, RelayedQueue, SERVER, SHORT};

const JOBS: usize = 20_000;
const PER_CALL: usize = 50;
const SINK_QUEUE: &str = "drained";
const LIMIT: Duration = Duration::from_secs(240);

/// A relay from a queue of a server of lmstfy.
fn settings(old: &Stack, source: &QueueClient, queue: &RelayedQueue) -> [String; 3] {
    let (url, token) = (old.api(0).url(), source.token());
    let (namespace, name) = (source.namespace(), source.name());
    [
        SHORT.to_owned(),
        format!(
            "[relay.r.source]\nkind = \"lmstfy\"\nurl = \"{url}\"\nnamespace = \"{namespace}\"\nqueue = \"{name}\"\n\
             token = \"{token}\"\n"
        ),
        format!("{}time_limit = \"2s\"\n", queue.as_end("sink", SINK_QUEUE)),
    ]
}

/// The wire has no release: a job with one try would be dead.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_lmstfy_are_held_while_the_sink_is_unavailable() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "drain-held").await;
    let source = stack.queue_in("old-held", "q").await;
    queue.set_closed(SINK_QUEUE, true).await;
    let bodies: Vec<String> = (0..50).map(|job| job.to_string()).collect();
    source.publish_bulk(&bodies).tries(1).ids().await;
    let settings = settings(&stack, &source, &queue);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let relay = RelayDaemon::start(&settings).await;
    relay
        .status_has("the breaker is open", |status| status["breaker"] == "open")
        .await;
    queue.set_closed(SINK_QUEUE, false).await;
    relay
        .status_has("all jobs are confirmed", |status| {
            status["confirmed"] == 50 && status["held"] == 0
        })
        .await;
    assert_eq!(queue.counts(SINK_QUEUE).await["ready"], 50);
    assert_eq!((source.size().await, source.dead_size().await), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_of_lmstfy_drains_under_load_while_a_relay_is_killed() {
    let old = Stack::builder().start().await;
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "drain").await;
    let source = old.queue_in("old", QUEUE).await;
    let settings = settings(&old, &source, &queue);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let (first, second) = (
        RelayDaemon::start(&settings).await,
        RelayDaemon::start(&settings).await,
    );
    let begin = std::time::Instant::now();
    for call in 0..JOBS / PER_CALL {
        let bodies: Vec<String> = (0..PER_CALL)
            .map(|job| (call * PER_CALL + job).to_string())
            .collect();
        let publish = source
            .publish_bulk(&bodies)
            .delay_s([0, 0, 1, 3, 10][call % 5])
            .tries(5);
        assert_eq!(publish.ids().await.len(), PER_CALL);
        if call == JOBS / PER_CALL / 2 {
            assert!(first.status().await["confirmed"].as_u64() > Some(0));
            first.daemon.kill();
        }
    }
    eventually("all jobs have arrived", LIMIT, async || {
        let counts = queue.counts(SINK_QUEUE).await;
        if counts["ready"] == JOBS {
            Ok(())
        } else {
            Err(counts)
        }
    })
    .await;
    print_figure(&format!(
        "{JOBS} jobs drained in {:.1} s",
        begin.elapsed().as_secs_f64()
    ));
    eventually("the old queue is empty", LIMIT, async || {
        match second.status().await {
            status if status["held"] == 0 => Ok(()),
            status => Err(status),
        }
    })
    .await;
    assert_eq!((source.size().await, source.dead_size().await), (0, 0));
    // The payloads are those of the old jobs, and no number is there twice.
    let mut numbers = std::collections::BTreeSet::new();
    for job in queue.native.reserve(SINK_QUEUE, 256).await {
        assert!(numbers.insert(job["payload_base64"].to_string()));
    }
}
