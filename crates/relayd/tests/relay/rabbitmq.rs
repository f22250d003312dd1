//! RabbitMQ: confirmations, a broker that crashes, queues that are missing or full.

use std::collections::BTreeSet;
use std::time::Duration;

use lapin::options::{BasicGetOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties};
use tidegate_local_broker::{BrokerKind, LocalBroker};
use tidegate_testkit::eventually;

use crate::fixture::{
    LIMIT, QUEUE, RelayDaemon, RelayedQueue, SERVER, SHORT, crash, restart, start_broker,
};
use crate::traces::relay_traced_job;

fn sink(broker: &LocalBroker) -> String {
    format!(
        "[relay.r.sink]\nkind = \"rabbitmq\"\nurl = \"{}\"\nrouting_key = \"orders\"\ntime_limit = \"2s\"\n",
        broker.url()
    )
}

async fn channel(broker: &LocalBroker) -> (Connection, Channel) {
    let connection = Connection::connect(&broker.url(), ConnectionProperties::default())
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    (connection, channel)
}

/// A durable queue that refuses more than so many messages.
async fn declare(broker: &LocalBroker, messages_max: i32) {
    let (_connection, channel) = channel(broker).await;
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(messages_max));
    arguments.insert(
        "x-overflow".into(),
        AMQPValue::LongString("reject-publish".into()),
    );
    let options = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel
        .queue_declare("orders".into(), options, arguments)
        .await
        .unwrap();
}

/// Takes all messages from the queue, and returns their ids and how many there were.
async fn take_all(broker: &LocalBroker) -> (BTreeSet<String>, usize) {
    let (_connection, channel) = channel(broker).await;
    let (mut ids, mut count) = (BTreeSet::new(), 0);
    let options = BasicGetOptions { no_ack: true };
    while let Some(message) = channel.basic_get("orders".into(), options).await.unwrap() {
        let properties = &message.delivery.properties;
        assert_eq!(
            properties.content_type().as_ref().unwrap().as_str(),
            "text/plain"
        );
        let headers = properties.headers().clone().unwrap();
        let number = headers.inner().get("Job-Attr-number").unwrap();
        let payload = String::from_utf8(message.delivery.data.clone()).unwrap();
        assert_eq!(number, &AMQPValue::LongString(payload.into()));
        ids.insert(properties.message_id().as_ref().unwrap().to_string());
        count += 1;
    }
    (ids, count)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_rabbitmq_loses_nothing_and_missing_and_full_queues_are_waited_for() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "rabbitmq").await;
    let mut broker = start_broker(BrokerKind::RabbitMq).await;
    let relay = RelayDaemon::start(&[SHORT, &queue.as_end("source", QUEUE), &sink(&broker)]).await;

    let mut expected = queue.publish(0..100).await;
    relay
        .status_has("no queue takes the messages", |status| {
            status["breaker"] == "open"
        })
        .await;
    assert!(
        relay.status().await["last_error"]["text"]
            .to_string()
            .contains("NO_ROUTE")
    );
    declare(&broker, 10).await;
    relay
        .status_has("the queue is full", |status| {
            status["confirmed"].as_u64() >= Some(10) && status["breaker"] == "open"
        })
        .await;
    let (mut received, mut count) = take_all(&broker).await;
    eventually(
        "the other jobs arrive as there is room",
        LIMIT,
        async || {
            let (more, more_count) = take_all(&broker).await;
            received.extend(more);
            count += more_count;
            if received.len() == expected.len() {
                Ok(())
            } else {
                Err(received.len())
            }
        },
    )
    .await;
    // RabbitMQ confirms a message that is in flight while its queue is deleted, and drops it: nothing may be in flight.
    queue.drained().await;
    let (_connection, admin) = channel(&broker).await;
    admin
        .queue_delete("orders".into(), QueueDeleteOptions::default())
        .await
        .unwrap();
    declare(&broker, 1_000_000).await;
    // RabbitMQ writes a new queue to disk after some seconds: a crash before loses the queue with all its messages. A
    // stop writes it at once.
    broker = restart(broker).await;

    for round in 0..2 {
        let first = 1000 + round * 1000;
        expected.extend(queue.publish(first..first + 1000).await);
        broker = crash(broker, Duration::from_millis(500)).await;
    }
    queue.drained().await;
    let (more, more_count) = take_all(&broker).await;
    received.extend(more);
    count += more_count;
    assert_eq!(received, expected, "nothing is lost");
    assert!(
        count < expected.len() + 2 * 1024,
        "{count}: only what was not confirmed is repeated"
    );
    assert_eq!(relay.status().await["rejected"], 0);
}

/// The only message of the queue continues the trace of its job.
async fn check_trace(broker: &LocalBroker) {
    let span = relay_traced_job(&sink(broker)).await;
    let (_connection, channel) = channel(broker).await;
    let options = BasicGetOptions { no_ack: true };
    let message = channel.basic_get("orders".into(), options).await;
    let message = message.unwrap().unwrap();
    let headers = message.delivery.properties.headers().clone().unwrap();
    let expected = AMQPValue::LongString(span.into());
    assert_eq!(headers.inner().get("traceparent"), Some(&expected));
}

/// The threads of a process.
fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_are_too_large_are_dead_and_a_silent_broker_costs_no_threads() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "rabbitmq-large").await;
    let broker = start_broker(BrokerKind::RabbitMq).await;
    declare(&broker, 1_000_000).await;
    let mut expected = queue.publish(0..300).await;
    let large = [
        queue.publish_large(1_001_000).await,
        queue.publish_large(1_002_000).await,
    ];
    expected.extend(queue.publish(300..700).await);
    let end = queue.as_end("source", QUEUE);
    let settings = [SHORT, &end, &sink(&broker)];
    let relay = RelayDaemon::start(&settings).await;
    relay
        .status_has("the jobs are confirmed or dead", |status| {
            status["confirmed"] == 700 && status["dead"] == 2 && status["held"] == 0
        })
        .await;
    let (received, count) = take_all(&broker).await;
    assert_eq!(received, expected);
    assert!(
        count <= 2 * expected.len(),
        "{count}: only what was not confirmed is repeated, once"
    );
    for id in large {
        assert_eq!(queue.job(&id).await["state"], "dead");
    }
    relay.daemon.stop(LIMIT).await;
    check_trace(&broker).await;

    let short = sink(&broker).replace("2s", "200ms");
    let relay = RelayDaemon::start(&[SHORT, &end, &short]).await;
    let mut expected = queue.publish(1000..1001).await;
    relay
        .status_has("it is connected", |status| status["confirmed"] == 1)
        .await;
    let before = threads(relay.daemon.pid());
    broker.pause().unwrap();
    expected.extend(queue.publish(1001..1002).await);
    relay
        .status_has("the broker is silent", |status| {
            status["unavailable"].as_u64() >= Some(25)
        })
        .await;
    let after = threads(relay.daemon.pid());
    broker.resume().unwrap();
    assert!(after < before + 10, "{before} threads, then {after}");
    relay
        .status_has("the broker is back", |status| {
            status["confirmed"] == 2 && status["held"] == 0
        })
        .await;
    assert!(take_all(&broker).await.0.is_superset(&expected));
}
