//! NATS: confirmations, repetitions, a broker that crashes, streams that are missing or full.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, Stream};
use async_nats::jetstream::{self, Context};
use futures_util::StreamExt;
use tidegate::{IfExists, PublishResult};
use tidegate_local_broker::{BrokerKind, LocalBroker};
use tidegate_testkit::eventually;

use crate::fixture::{LIMIT, QUEUE, RelayDaemon, RelayedQueue, SERVER, SHORT, crash, start_broker};
use crate::traces::relay_traced_job;

fn sink(broker: &LocalBroker) -> String {
    format!(
        "[relay.r.sink]\nkind = \"nats\"\nurl = \"{}\"\nsubject = \"orders\"\ntime_limit = \"2s\"\n",
        broker.url()
    )
}

async fn context(broker: &LocalBroker) -> Context {
    jetstream::new(async_nats::connect(broker.url()).await.unwrap())
}

fn stream_config(messages_max: i64) -> Config {
    Config {
        name: "ORDERS".to_owned(),
        subjects: vec!["orders".to_owned()],
        max_messages: messages_max,
        discard: DiscardPolicy::New,
        ..Config::default()
    }
}

/// The ids of all messages of a stream; panics if one is there twice.
async fn ids(stream: &Stream) -> BTreeSet<String> {
    let count = stream.get_info().await.unwrap().state.messages;
    let consumer = stream
        .create_consumer(jetstream::consumer::pull::Config::default())
        .await
        .unwrap();
    let mut messages = consumer.stream().messages().await.unwrap();
    let mut ids = BTreeSet::new();
    for _ in 0..count {
        let message = messages.next().await.unwrap().unwrap();
        message.ack().await.unwrap();
        let headers = message.headers.clone().unwrap();
        let id = headers.get("Nats-Msg-Id").unwrap().to_string();
        assert_eq!(headers.get("tidegate-id").unwrap().as_str(), id);
        assert_eq!(headers.get("Content-Type").unwrap().as_str(), "text/plain");
        assert_eq!(
            headers.get("Job-Attr-number").unwrap().as_str().as_bytes(),
            &*message.payload
        );
        assert!(ids.insert(id), "a message is there twice");
    }
    ids
}

async fn payloads(stream: &Stream) -> BTreeSet<String> {
    let count = stream.get_info().await.unwrap().state.messages;
    let mut payloads = BTreeSet::new();
    for number in 1..=count {
        let message = stream.get_raw_message(number).await.unwrap();
        payloads.insert(String::from_utf8(message.payload.to_vec()).unwrap());
    }
    payloads
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_nats_loses_and_repeats_nothing() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "nats-crash").await;
    let mut broker = start_broker(BrokerKind::Nats).await;
    let context = context(&broker).await;
    let stream = context.create_stream(stream_config(-1)).await.unwrap();
    let settings = [SHORT, &queue.as_end("source", QUEUE), &sink(&broker)];
    let relay = RelayDaemon::start(&settings).await;
    let mut expected = BTreeSet::new();
    for round in 0..3 {
        expected.extend(queue.publish(round * 1000..round * 1000 + 1000).await);
        broker = crash(broker, Duration::from_millis(500)).await;
    }
    queue.drained().await;
    assert_eq!(ids(&stream).await, expected);
    assert_eq!(relay.status().await["rejected"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_wait_for_a_stream_that_is_missing_or_full() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "nats-full").await;
    let broker = start_broker(BrokerKind::Nats).await;
    let context = context(&broker).await;
    let relay = RelayDaemon::start(&[SHORT, &queue.as_end("source", QUEUE), &sink(&broker)]).await;
    let expected = queue.publish(0..100).await;
    relay
        .status_has("the breaker is open", |status| status["breaker"] == "open")
        .await;
    context.create_stream(stream_config(10)).await.unwrap();
    relay
        .status_has("the stream is full", |status| {
            status["confirmed"] == 10 && status["breaker"] == "open"
        })
        .await;
    let first = expected.first().unwrap();
    assert!(queue.job(first).await["failures"].as_u64().unwrap_or(0) == 0);
    context.update_stream(stream_config(1000)).await.unwrap();
    queue.drained().await;
    let stream = context.get_stream("ORDERS").await.unwrap();
    assert_eq!(ids(&stream).await, expected);
}

/// A stream drops a message whose id it has seen.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_replaced_while_it_is_delivered_is_delivered_again() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "nats-replaced").await;
    let broker = start_broker(BrokerKind::Nats).await;
    let context = context(&broker).await;
    let stream = context.create_stream(stream_config(-1)).await.unwrap();
    let settings = [SHORT, &queue.as_end("source", QUEUE), &sink(&broker)];
    let relay = RelayDaemon::start(&settings).await;
    queue.publish(0..1).await;
    queue.drained().await;
    broker.pause().unwrap();
    let publish = async |text: &'static str| {
        let publish = queue.client.publish_raw(QUEUE, text, "text/plain").key("k");
        let publish = publish.if_exists(IfExists::Replace);
        publish.attribute("number", text).await.unwrap().outcome
    };
    assert_eq!(publish("old").await, PublishResult::Created);
    relay
        .status_has("the job is being delivered", |status| status["held"] == 1)
        .await;
    assert_eq!(publish("new").await, PublishResult::Rerun);
    broker.resume().unwrap();
    queue.drained().await;
    let payloads = payloads(&stream).await;
    let expected = ["0", "new", "old"].map(str::to_owned);
    assert_eq!(payloads, BTreeSet::from(expected));
}

/// An empty queue says nothing about its sink.
#[tokio::test(flavor = "multi_thread")]
async fn a_sink_without_jobs_is_not_reported_as_unavailable() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "nats-idle").await;
    let mut broker = start_broker(BrokerKind::Nats).await;
    broker.kill();
    let settings = [SHORT, &queue.as_end("source", QUEUE), &sink(&broker)];
    let relay = RelayDaemon::start(&settings).await;
    let id = queue.publish(0..1).await.pop_first().unwrap();
    let gauge = async |value: u8| {
        eventually("the gauge of the breaker", LIMIT, async || {
            let line = format!("tidegate_relay_breaker_open{{relay=\"r\"}} {value}\n");
            let metrics = relay.daemon.metrics().await;
            if metrics.contains(&line) {
                Ok(())
            } else {
                Err(metrics)
            }
        })
        .await;
    };
    gauge(1).await;
    let path = format!("/queues/{QUEUE}/jobs/{id}?running=revoke");
    queue
        .native
        .send("DELETE", &path, &[], b"")
        .await
        .expect(200);
    gauge(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_too_large_for_its_stream_is_dead_and_stops_no_other() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "nats-large").await;
    let broker = start_broker(BrokerKind::Nats).await;
    let config = Config {
        max_message_size: 2000,
        ..stream_config(-1)
    };
    let stream = context(&broker).await.create_stream(config).await.unwrap();
    let large = queue.publish_large(5000).await;
    let expected = queue.publish(0..100).await;
    let relay = RelayDaemon::start(&[SHORT, &queue.as_end("source", QUEUE), &sink(&broker)]).await;
    relay
        .status_has("the jobs are confirmed or dead", |status| {
            status["confirmed"] == 100 && status["dead"] == 1 && status["held"] == 0
        })
        .await;
    assert_eq!(ids(&stream).await, expected);
    assert_eq!(queue.job(&large).await["state"], "dead");
    assert_eq!(relay.status().await["unavailable"], 0);

    let span = relay_traced_job(&sink(&broker)).await;
    let message = stream.get_last_raw_message_by_subject("orders").await;
    let headers = message.unwrap().headers;
    assert_eq!(headers.get("traceparent").unwrap().as_str(), span);
}

/// The client library logs URLs, and what it sends.
#[tokio::test(flavor = "multi_thread")]
async fn no_log_level_shows_the_password() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "nats-log").await;
    let broker = start_broker(BrokerKind::Nats).await;
    let context = context(&broker).await;
    context.create_stream(stream_config(-1)).await.unwrap();
    let source = queue.as_end("source", QUEUE);
    let sink = sink(&broker).replace("nats://", "nats://u:hunter2@");
    let settings = ["[log]\nlevel = \"trace\"\n", SHORT, &source, &sink];
    let relay = RelayDaemon::start(&settings).await;
    queue.publish(0..1).await;
    queue.drained().await;
    relay.daemon.stop(LIMIT).await;
    let log = relay.daemon.log();
    assert!(log.contains("DEBUG") && !log.contains("hunter2"), "{log}");
}
