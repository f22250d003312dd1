//! How many jobs a second a relay passes on to a real broker, and how late they arrive:
//! `cargo build --release --bins && cargo bench -p tidegate-relayd --bench brokers`. Tests leave out Kafka.
#![allow(
    clippy::unwrap_used,
    reason = "a failure ends the measurement by panicking"
)]

#[path = "../tests/relay/fixture.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod fixture;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::jetstream;
use futures_util::stream::{BoxStream, iter, select_all, unfold};
use futures_util::{Stream, StreamExt};
use lapin::options::{BasicConsumeOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use rskafka::client::ClientBuilder;
use rskafka::client::partition::{PartitionClient, UnknownTopicHandling};
use tidegate::Client;
use tidegate_local_broker::{BrokerKind, LocalBroker};
use tidegate_testkit::{Stack, print_figure};

use fixture::{QUEUE, RelayDaemon, RelayedQueue, SHORT, start_broker};

/// Jobs that are passed on as fast as possible, and at a pace.
const LOAD: [usize; 2] = [50_000, 5_000];
const TEST_LOAD: [usize; 2] = [500, 50];
/// 200 a second.
const PACE: Duration = Duration::from_millis(5);

/// A sink in a broker, and the payloads that arrive there.
type Receiver = (String, BoxStream<'static, Vec<u8>>);

async fn receiver(kind: BrokerKind, broker: &LocalBroker) -> Receiver {
    match kind {
        BrokerKind::Nats => nats(broker.url()).await,
        BrokerKind::RabbitMq => rabbitmq(broker.url()).await,
        BrokerKind::Kafka => {
            tokio::task::block_in_place(|| broker.make_topic("s", &[]).unwrap());
            kafka(broker.url()).await
        }
    }
}

async fn nats(url: String) -> Receiver {
    let client = async_nats::connect(&url).await.unwrap();
    let config = jetstream::stream::Config {
        name: "S".to_owned(),
        subjects: vec!["s".to_owned()],
        ..Default::default()
    };
    jetstream::new(client.clone())
        .create_stream(config)
        .await
        .unwrap();
    let messages = client.subscribe("s").await.unwrap();
    let sink = format!(
        "[relay.r.sink]\nkind = \"nats\"\nurl = \"{url}\"\nsubject = \"s\"\ntime_limit = \"2s\"\n"
    );
    (
        sink,
        messages.map(|message| message.payload.to_vec()).boxed(),
    )
}

async fn rabbitmq(url: String) -> Receiver {
    let connection = Connection::connect(&url, ConnectionProperties::default())
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    let options = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel
        .queue_declare("s".into(), options, FieldTable::default())
        .await
        .unwrap();
    let options = BasicConsumeOptions {
        no_ack: true,
        ..BasicConsumeOptions::default()
    };
    let messages = channel
        .basic_consume("s".into(), "".into(), options, FieldTable::default())
        .await
        .unwrap();
    let sink = format!(
        "[relay.r.sink]\nkind = \"rabbitmq\"\nurl = \"{url}\"\nrouting_key = \"s\"\ntime_limit = \"2s\"\n"
    );
    let messages = messages.map(move |message| {
        let _open = &connection;
        message.unwrap().data
    });
    (sink, messages.boxed())
}

async fn kafka(url: String) -> Receiver {
    let client = ClientBuilder::new(vec![url.clone()]).build().await.unwrap();
    let mut partitions = Vec::new();
    for number in 0..3 {
        let handling = UnknownTopicHandling::Retry;
        let partition = client.partition_client("s", number, handling).await;
        partitions.push(payloads_of(partition.unwrap()).boxed());
    }
    let sink = format!(
        "[relay.r.sink]\nkind = \"kafka\"\nurl = \"{url}\"\ntopic = \"s\"\ntime_limit = \"2s\"\n"
    );
    let messages = select_all(partitions).map(move |payload| {
        let _open = &client;
        payload
    });
    (sink, messages.boxed())
}

/// The payloads that arrive in a partition. It has a connection, on which a fetch waits for the next message.
fn payloads_of(partition: PartitionClient) -> impl Stream<Item = Vec<u8>> {
    let fetched = unfold((partition, 0), async |(partition, offset)| {
        let fetched = partition.fetch_records(offset, 1..10_000_000, 500).await;
        let (records, _) = fetched.unwrap();
        let next = records.last().map_or(offset, |last| last.offset + 1);
        let payloads: Vec<_> = records
            .into_iter()
            .filter_map(|record| record.record.value)
            .collect();
        Some((iter(payloads), (partition, next)))
    });
    fetched.flatten()
}

/// Publishes jobs at a pace, and returns how long each took from its publish to its arrival in the sink, sorted.
async fn latencies(
    client: &Client,
    messages: &mut BoxStream<'static, Vec<u8>>,
    jobs: usize,
) -> Vec<Duration> {
    let begun = Arc::new(Mutex::new(HashMap::new()));
    let (publisher, all) = (client.clone(), Arc::clone(&begun));
    let publishing = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(PACE);
        for number in 0..jobs {
            ticks.tick().await;
            all.lock()
                .unwrap()
                .insert(format!("p{number}"), Instant::now());
            let publish = publisher.publish_raw(QUEUE, format!("p{number}"), "text/plain");
            tokio::spawn(publish.into_future());
        }
    });
    let mut latencies = Vec::new();
    while latencies.len() < jobs {
        let payload = String::from_utf8(messages.next().await.unwrap()).unwrap();
        if let Some(begin) = begun.lock().unwrap().remove(&payload) {
            latencies.push(begin.elapsed());
        }
    }
    publishing.await.unwrap();
    latencies.sort();
    latencies
}

async fn measure(kind: BrokerKind, [jobs, paced]: [usize; 2]) {
    let stack = Stack::builder().start().await;
    let queue = RelayedQueue::new(&stack, "speed").await;
    let broker = start_broker(kind).await;
    let (sink, mut messages) = receiver(kind, &broker).await;
    queue.publish(0..jobs).await;
    let relay = RelayDaemon::start(&[SHORT, &queue.as_end("source", QUEUE), &sink]).await;
    let begin = Instant::now();
    for _ in 0..jobs {
        messages.next().await.unwrap();
    }
    let rate = jobs as f64 / begin.elapsed().as_secs_f64();
    queue.drained().await;
    let all = jobs as f64 / begin.elapsed().as_secs_f64();
    print_figure(&format!(
        "{kind}: {rate:.0} jobs/s delivered, {all:.0} jobs/s until all were acknowledged"
    ));
    let latencies = latencies(&queue.client, &mut messages, paced).await;
    let at = |share: usize| latencies[(latencies.len() - 1) * share / 1000].as_secs_f64() * 1000.0;
    print_figure(&format!(
        "{kind}: from publish to arrival, 200 jobs/s: p50 {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms",
        at(500),
        at(990),
        at(999)
    ));
    drop(relay);
}

/// `cargo test` runs a few jobs, so that the measurement stays valid.
#[tokio::main]
async fn main() {
    let is_test = !std::env::args().any(|it| it == "--bench");
    let load = if is_test { TEST_LOAD } else { LOAD };
    measure(BrokerKind::Nats, load).await;
    measure(BrokerKind::RabbitMq, load).await;
    if !is_test {
        measure(BrokerKind::Kafka, load).await;
    }
}
