//! A queue of the lmstfy wire drains into a Tidegate, while jobs are published and a relay is killed.

use std::time::{Duration, Instant};

use tidegate_testkit::{QueueClient, RawHttp, Stack, eventually, print_figure};
use tokio::time::sleep_until;

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
    let ids = source.publish_bulk(&bodies).tries(1).ids().await;
    let settings = settings(&stack, &source, &queue);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let relay = RelayDaemon::start(&settings).await;
    relay
        .status_has("the breaker is open", |status| status["breaker"] == "open")
        .await;
    // A client cancels one while the relay holds it.
    source.ack(&ids[49]).await;
    queue.set_closed(SINK_QUEUE, false).await;
    relay
        .status_has("all jobs are confirmed", |status| {
            status["confirmed"] == 49 && status["held"] == 0
        })
        .await;
    assert_eq!(queue.counts(SINK_QUEUE).await["ready"], 49);
    assert_eq!((source.size().await, source.dead_size().await), (0, 0));
}

/// A job of lmstfy with one try is delivered once, and one that expires there expires here.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_lmstfy_keeps_its_tries_and_its_time_to_live() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "drain-life").await;
    let source = stack.queue_in("old-life", "q").await;
    let settings = settings(&stack, &source, &queue);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let _relay = RelayDaemon::start(&settings).await;
    source.publish("short").ttl_s(6).tries(1).id().await;
    source.publish("once").ttl_s(0).tries(1).id().await;
    source.publish("twice").ttl_s(600).tries(2).id().await;
    let sink = stack.queue_in("drain-life", SINK_QUEUE).await;
    let drained = async || match sink.size().await {
        3 => Ok(()),
        size => Err(size),
    };
    eventually("all jobs have arrived", LIMIT, drained).await;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.extend(sink.consume().ttr_s(1).timeout_s(10).job().await);
    }
    let shown: Vec<_> = jobs
        .iter()
        .map(|job| (job.text(), job.remain_tries))
        .collect();
    for (text, tries) in [("short", 0), ("once", 0), ("twice", 1)] {
        assert!(shown.contains(&(text.to_owned(), tries)), "{shown:?}");
    }
    for job in &jobs {
        match job.text().as_str() {
            "once" => assert_eq!(job.ttl_s, 0),
            "short" => assert!((1..=6).contains(&job.ttl_s), "{job:?}"),
            _ => assert!((560..=600).contains(&job.ttl_s), "{job:?}"),
        }
    }
    // No ack: one job has another try, and the others are dead, or gone.
    let again = sink.consume().ttr_s(60).timeout_s(20).job().await.unwrap();
    assert_eq!((again.text(), again.remain_tries), ("twice".to_owned(), 0));
    eventually("the short job is over", LIMIT, async || {
        // The short one may have died before.
        match (sink.size().await, sink.dead_size().await) {
            (0, 1 | 2) => Ok(()),
            left => Err(format!("{left:?}")),
        }
    })
    .await;
}

/// A job that waits for the relay expires with its time to live, and is not delivered again by the new server.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_lmstfy_that_waits_in_the_new_queue_expires() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "drain-ttl").await;
    let source = stack.queue_in("old-ttl", "q").await;
    let settings = settings(&stack, &source, &queue);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let _relay = RelayDaemon::start(&settings).await;
    source.publish("short").ttl_s(6).tries(1).id().await;
    let sink = stack.queue_in("drain-ttl", SINK_QUEUE).await;
    let published_at = Instant::now();
    eventually("the job has arrived", LIMIT, async || {
        match sink.size().await {
            1 => Ok(()),
            size => Err(size),
        }
    })
    .await;
    sleep_until((published_at + Duration::from_secs(8)).into()).await;
    assert!(sink.consume().job().await.is_none(), "it lives 6 s");
}

/// While queues drain, clients delete a job by its old id at the new server, wherever it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_lmstfy_is_cancelled_by_its_old_id() {
    let old = Stack::builder().start().await;
    let source = old.queue_in("shop", QUEUE).await;
    let drained = format!("[drained_server]\nurl = \"{}\"\n", old.api(0).url());
    let stack = Stack::builder().api_config(&drained).start().await;
    let queue = RelayedQueue::new(&stack, "shop").await;
    // The same tokens open both servers (docs/from-lmstfy.md).
    let token = format!("/token/shop?description=moved&token={}", source.token());
    let mut admin = RawHttp::connect(stack.api(0).admin()).await;
    admin.request("POST", &token, &[], b"").await;
    admin.answer().await.unwrap().expect(201);
    let here = source.on_api(stack.api(0));
    // It has not arrived: it waits at the old server.
    let waiting = source.publish("waits").delay_s(3600).ttl_s(0).id().await;
    here.ack(&waiting).await;
    assert_eq!(source.peek_job(&waiting).await.status, 404);
    // Its worker has reserved it there, and acknowledges it here.
    let leased = source.publish("leased").tries(3).id().await;
    source.consume().ttr_s(2).timeout_s(5).job().await.unwrap();
    here.ack(&leased).await;
    assert_eq!(source.peek_job(&leased).await.status, 404);
    // It has arrived.
    let settings = settings(&old, &source, &queue);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let relay = RelayDaemon::start(&settings).await;
    let arrived = source.publish("arrived").tries(1).id().await;
    relay
        .status_has("the job is confirmed", |status| status["confirmed"] == 1)
        .await;
    let sink = here.sibling(SINK_QUEUE);
    sink.ack(&arrived).await;
    assert!(sink.consume().job().await.is_none());
    // Without an answer of the old server the client repeats the request.
    old.api(0).pause();
    let answer = here.try_ack(&waiting).await.unwrap();
    assert_eq!(answer.status, 503, "{answer}");
    assert!(answer.header("retry-after").is_some());
    old.api(0).resume();
    stack.finish().await;
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
