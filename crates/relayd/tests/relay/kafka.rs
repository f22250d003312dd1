//! Kafka: confirmations, a broker that crashes or hangs, a topic that is missing, messages that are too large, keys and
//! their order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rskafka::client::partition::{OffsetAt, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use tidegate::BatchJob;
use tidegate_local_broker::{BrokerKind, LocalBroker};
use tidegate_testkit::{Stack, print_figure};

use crate::fixture::{QUEUE, RelayDaemon, RelayedQueue, SERVER, SHORT, crash, start_broker};
use crate::traces::relay_traced_job;

const ORDERS: &str = "orders";
const LARGE: &str = "large";
const TRACED: &str = "traced";
const PARTITIONS: i32 = 3;
const FETCH_BYTES_MAX: i32 = 50 << 20;
const CUSTOMERS: usize = 7;

fn sink(broker: &LocalBroker, topic: &str, key: &str) -> String {
    format!(
        "[relay.r.sink]\nkind = \"kafka\"\nurl = \"{}\"\ntopic = \"{topic}\"\nkey = \"{key}\"\ntime_limit = \"2s\"\n",
        broker.url()
    )
}

async fn client(broker: &LocalBroker) -> Client {
    ClientBuilder::new(vec![broker.url()])
        .build()
        .await
        .unwrap()
}

async fn make_topic(broker: &LocalBroker, topic: &str, settings: &[(&str, &str)]) {
    tokio::task::block_in_place(|| broker.make_topic(topic, settings).unwrap());
}

/// All messages of the topic, by partition.
async fn messages(broker: &LocalBroker, topic: &str) -> Vec<Vec<Record>> {
    let client = client(broker).await;
    let mut partitions = Vec::new();
    for number in 0..PARTITIONS {
        let partition = client.partition_client(topic, number, UnknownTopicHandling::Retry);
        let partition = partition.await.unwrap();
        let end = partition.get_offset(OffsetAt::Latest).await.unwrap();
        let mut records: Vec<Record> = Vec::new();
        while let begin = i64::try_from(records.len()).unwrap()
            && begin < end
        {
            let fetched = partition.fetch_records(begin, 1..FETCH_BYTES_MAX, 1000);
            let (fetched, _) = fetched.await.unwrap();
            records.extend(fetched.into_iter().map(|fetched| fetched.record));
        }
        partitions.push(records);
    }
    partitions
}

fn header<'a>(record: &'a Record, name: &str) -> &'a str {
    std::str::from_utf8(&record.headers[name]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn crashes_and_a_pause_of_kafka_lose_nothing_and_repeat_only_what_was_not_confirmed() {
    const JOBS: usize = 2000;
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "kafka-crash").await;
    let mut broker = start_broker(BrokerKind::Kafka).await;
    make_topic(&broker, ORDERS, &[]).await;
    let settings = [
        SHORT,
        &queue.as_end("source", QUEUE),
        &sink(&broker, ORDERS, ""),
    ];
    let relay = RelayDaemon::start(&settings).await;
    let mut expected = BTreeSet::new();
    for round in 0..2 {
        let begin = round * JOBS;
        let publishing = async {
            for first in (begin..begin + JOBS).step_by(100) {
                expected.extend(queue.publish(first..first + 100).await);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let crashing = async {
            relay
                .status_has("jobs flow", |status| {
                    status["confirmed"].as_u64() >= Some(begin as u64 + 200)
                })
                .await;
            crash(broker, Duration::from_millis(500)).await
        };
        ((), broker) = tokio::join!(publishing, crashing);
        queue.drained().await;
    }
    // Connections stay open, and nothing is answered.
    broker.pause().unwrap();
    expected.extend(queue.publish(2 * JOBS..2 * JOBS + 500).await);
    relay
        .status_has("the time limit holds", |status| {
            let error = status["last_error"]["text"].to_string();
            error.contains("not confirmed within 2s") && status["breaker"] == "open"
        })
        .await;
    broker.resume().unwrap();
    queue.drained().await;
    let (mut ids, mut count) = (BTreeSet::new(), 0);
    for (number, records) in messages(&broker, ORDERS).await.iter().enumerate() {
        assert!(!records.is_empty(), "partition {number} has messages");
        count += records.len();
        for record in records {
            assert_eq!(record.key, None);
            assert_eq!(header(record, "content-type"), "text/plain");
            let number = header(record, "Job-Attr-number").as_bytes();
            assert_eq!(Some(number), record.value.as_deref());
            ids.insert(header(record, "tidegate-id").to_owned());
        }
    }
    assert_eq!(ids, expected, "nothing is lost");
    let status = relay.status().await;
    let unconfirmed = usize::try_from(status["unavailable"].as_u64().unwrap()).unwrap();
    let repeated = count - expected.len();
    print_figure(&format!("{repeated} repeated, {unconfirmed} unconfirmed"));
    assert!(
        repeated <= unconfirmed,
        "only what was not confirmed is repeated: {status}"
    );
    assert_eq!(
        (&status["rejected"], &status["dead"]),
        (&0.into(), &0.into())
    );
}

/// Publishes jobs of some customers, with payloads that sort as they are published.
async fn publish_orders(queue: &RelayedQueue, numbers: std::ops::Range<usize>) {
    let jobs = numbers.map(|number| {
        BatchJob::raw(QUEUE, format!("{number:06}"), "text/plain")
            .attribute("customer", (number % CUSTOMERS).to_string())
    });
    for job in queue.client.publish_batch(jobs).await.unwrap() {
        job.unwrap();
    }
}

/// The payloads of each key; panics if a key is in two partitions.
async fn payloads_of_keys(broker: &LocalBroker) -> BTreeMap<String, Vec<String>> {
    let mut payloads = BTreeMap::new();
    for records in messages(broker, ORDERS).await {
        let mut of_partition: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for record in records {
            let customer = header(&record, "Job-Attr-customer").to_owned();
            assert_eq!(record.key.as_deref(), Some(customer.as_bytes()));
            let payload = String::from_utf8(record.value.unwrap()).unwrap();
            of_partition.entry(customer).or_default().push(payload);
        }
        for (customer, orders) in of_partition {
            assert!(
                payloads.insert(customer, orders).is_none(),
                "a key is in two partitions"
            );
        }
    }
    payloads
}

/// Starts a relay without a topic, makes the topic, and publishes more jobs. A relay that takes one job at a time keeps
/// the order of the queue; one that takes more keeps it in each call.
async fn check_missing_topic_and_order(stack: &Stack, broker: &LocalBroker) {
    let queue = RelayedQueue::new(stack, "kafka-keys").await;
    let source = queue.as_end("source", QUEUE);
    let sink = sink(broker, ORDERS, "attribute:customer");
    let relay = RelayDaemon::start(&[SHORT, "concurrency = 1\n", &source, &sink]).await;
    publish_orders(&queue, 0..1).await;
    relay
        .status_has("the breaker is open", |status| status["breaker"] == "open")
        .await;
    let status = relay.status().await;
    let error = status["last_error"]["text"].to_string();
    assert!(error.contains("there is no topic"), "{status}");
    make_topic(broker, ORDERS, &[]).await;
    queue.drained().await;
    publish_orders(&queue, 1..200).await;
    queue.drained().await;
    let status = relay.status().await;
    let counts = ["confirmed", "rejected", "dead"].map(|name| status[name].as_u64());
    assert_eq!(counts, [Some(200), Some(0), Some(0)], "{status}");
    relay.daemon.kill();
    publish_orders(&queue, 200..400).await;
    let _relay = RelayDaemon::start(&[SHORT, &source, &sink]).await;
    queue.drained().await;

    let payloads = payloads_of_keys(broker).await;
    assert_eq!(payloads.len(), CUSTOMERS);
    assert_eq!(payloads.values().map(Vec::len).sum::<usize>(), 400);
    for (customer, orders) in payloads {
        assert!(orders.is_sorted(), "customer {customer}: {orders:?}");
    }
}

/// One job of a call is larger than the topic takes; the others together are, too.
async fn check_too_large(stack: &Stack, broker: &LocalBroker) {
    const TOO_LARGE: usize = 210_000;
    let queue = RelayedQueue::new(stack, "kafka-large").await;
    make_topic(broker, LARGE, &[("max.message.bytes", "200000")]).await;
    let mut large = String::new();
    for size in [10, TOO_LARGE, 100_000, 150_000, 150_000, 10] {
        let publish = queue
            .client
            .publish_raw(QUEUE, vec![b'a'; size], "text/plain");
        let published = publish.await.unwrap();
        if size == TOO_LARGE {
            large = published.id.to_string();
        }
    }
    let source = queue.as_end("source", QUEUE);
    let relay = RelayDaemon::start(&[SHORT, &source, &sink(broker, LARGE, "")]).await;
    relay
        .status_has("all jobs are settled", |status| {
            status["confirmed"] == 5 && status["dead"] == 1 && status["held"] == 0
        })
        .await;
    let status = relay.status().await;
    assert_eq!(status["unavailable"], 0, "{status}");
    let job = queue.job(&large).await;
    assert_eq!(job["state"], "dead", "{job}");
    let history = job["history"].to_string();
    assert!(history.contains("too large for the topic"), "{job}");
    let messages = messages(broker, LARGE).await.concat();
    assert_eq!(messages.len(), 5);
    for message in messages {
        assert_ne!(header(&message, "tidegate-id"), large);
    }
}

/// The message continues the trace of its job.
async fn check_trace(broker: &LocalBroker) {
    make_topic(broker, TRACED, &[]).await;
    let span = relay_traced_job(&sink(broker, TRACED, "")).await;
    let messages = messages(broker, TRACED).await.concat();
    assert_eq!(messages.len(), 1);
    assert_eq!(header(&messages[0], "traceparent"), span);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_is_waited_for_keys_keep_their_order_and_a_job_that_is_too_large_is_dead() {
    let stack = SERVER.acquire().await;
    let broker = start_broker(BrokerKind::Kafka).await;
    check_missing_topic_and_order(&stack, &broker).await;
    check_too_large(&stack, &broker).await;
    check_trace(&broker).await;
}
