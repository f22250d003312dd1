//! Kills workers, relays and brokers under load, and counts the jobs that are lost and repeated; and how late the jobs
//! of a killed worker come back: `cargo build --release --bins && cargo bench -p tidegate-relayd --bench kills`.
//!
//! `KILLS=10` sets the number of kills (50), which are in turn of a worker, a relay, NATS and RabbitMQ.
#![allow(
    clippy::unwrap_used,
    reason = "a failure ends the measurement by panicking"
)]

#[path = "../tests/relay/fixture.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod fixture;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::jetstream;
use futures_util::StreamExt;
use lapin::options::{BasicConsumeOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use serde_json::json;
use tempfile::TempDir;
use tidegate::{BatchJob, Client, Fail, Job, Worker};
use tidegate_local_broker::{BrokerKind, LocalBroker};
use tidegate_testkit::{Stack, eventually, print_figure};
use tokio::time::{sleep, timeout};

use fixture::{LIMIT, RelayDaemon, RelayedQueue, crash, restart, start_broker};

/// The queues: one for workers, and one for each broker.
const WORK: &str = "work";
const NATS: &str = "to-nats";
const RABBITMQ: &str = "to-rabbitmq";
/// Jobs of a publish to each of them, and the time between publishes.
const PER_PUBLISH: usize = 20;
const PACE: Duration = Duration::from_millis(100);
/// Jobs that a worker or a relay holds at a time.
const HELD_MAX: usize = 64;
const WORKER_LEASE: Duration = Duration::from_secs(2);
const WORKER: &str = "KILLS_WORKER";
/// A file that gets the id of each job. Without it, jobs run until the worker is killed.
const WORKER_FILE: &str = "KILLS_WORKER_FILE";
const RETURN_ROUNDS: usize = 20;
const KILLS: usize = 50;

/// `cargo test` makes a few kills, so that the measurement stays valid.
#[tokio::main]
async fn main() {
    if let Ok(settings) = std::env::var(WORKER) {
        return work(&settings).await;
    }
    let is_test = !std::env::args().any(|it| it == "--bench");
    let (rounds, kills) = if is_test {
        (1, 2)
    } else {
        (RETURN_ROUNDS, KILLS)
    };
    returns(rounds).await;
    let kills = std::env::var("KILLS").map_or(kills, |kills| kills.parse().unwrap());
    kill(kills).await;
}

/// The worker process: `settings` is the URL, the API key and the namespace.
async fn work(settings: &str) {
    let settings: Vec<&str> = settings.split(' ').collect();
    let client = Client::builder(settings[0])
        .key(settings[1])
        .namespace(settings[2])
        .build()
        .unwrap();
    let file = std::env::var_os(WORKER_FILE).map(|path| {
        let file = File::options().append(true).create(true).open(path);
        Arc::new(file.unwrap())
    });
    let handler = move |job: Job| {
        let file = file.clone();
        async move {
            let Some(file) = file else {
                return std::future::pending().await;
            };
            // One write: a line is whole or missing.
            (&*file)
                .write_all(format!("{}\n", job.id()).as_bytes())
                .unwrap();
            Ok::<(), Fail>(())
        }
    };
    Worker::new(client)
        .handle_raw(WORK, handler)
        .concurrency(HELD_MAX)
        .lease(WORKER_LEASE)
        .run_until(std::future::pending())
        .await
        .unwrap();
}

/// A worker process, which is killed when this is dropped.
struct WorkerProcess(Child);

impl WorkerProcess {
    fn start(queue: &RelayedQueue, file: Option<&Path>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let settings = [queue.url.as_str(), queue.native.key(), &queue.namespace];
        command.env(WORKER, settings.join(" "));
        if let Some(file) = file {
            command.env(WORKER_FILE, file);
        }
        Self(command.spawn().unwrap())
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Kills workers, and prints how long after the ends of their leases the jobs are delivered again.
async fn returns(rounds: usize) {
    let stack = Stack::builder().start().await;
    let queue = RelayedQueue::new(&stack, "returns").await;
    let mut late = Vec::new();
    for _ in 0..rounds {
        let worker = WorkerProcess::start(&queue, None);
        let ids = publish(&queue.client, WORK, 0..HELD_MAX).await;
        let leased = async || match queue.counts(WORK).await {
            counts if counts["leased"] == HELD_MAX => Ok(()),
            counts => Err(counts),
        };
        eventually("the worker holds all jobs", LIMIT, leased).await;
        drop(worker);
        let mut ends = BTreeMap::new();
        for id in ids {
            let job = queue.client.queue(WORK).unwrap().job(&id).unwrap();
            let end = job.show().await.unwrap().lease_until.unwrap();
            ends.insert(id, i64::try_from(end.as_ms()).unwrap());
        }
        while !ends.is_empty() {
            let jobs = queue.native.reserve(WORK, HELD_MAX as u16).await;
            let now = jiff::Timestamp::now().as_millisecond();
            for job in &jobs {
                late.push(now - ends.remove(job["id"].as_str().unwrap()).unwrap());
            }
            let leases: Vec<_> = jobs.iter().map(|job| &job["lease"]).collect();
            queue.native.settle("ack", &json!({"leases": leases})).await;
        }
    }
    late.sort_unstable();
    print_figure(&format!(
        "{} jobs of {rounds} killed workers were delivered again after the ends of their leases: p50 {} ms, p99 {} ms, \
         from {} to {} ms",
        late.len(),
        late[late.len() / 2],
        late[late.len() * 99 / 100],
        late[0],
        late[late.len() - 1]
    ));
}

async fn publish(client: &Client, queue: &str, numbers: Range<usize>) -> BTreeSet<String> {
    let jobs = numbers.map(|number| {
        let job = BatchJob::raw(queue, number.to_string(), "text/plain");
        job.attribute("number", number.to_string())
    });
    let published = client.publish_batch(jobs).await.unwrap();
    published
        .into_iter()
        .map(|job| job.unwrap().id.to_string())
        .collect()
}

/// Publishes to all queues until it is stopped. Returns the ids by queue.
async fn publish_until(
    client: Client,
    stop: Arc<AtomicBool>,
) -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut ids: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let mut ticks = tokio::time::interval(PACE);
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        for queue in [WORK, NATS, RABBITMQ] {
            let published = publish(&client, queue, 0..PER_PUBLISH).await;
            ids.entry(queue).or_default().extend(published);
        }
    }
    ids
}

/// What the kills hit.
struct KilledFleet {
    queue: RelayedQueue,
    settings: Vec<String>,
    /// The workers append ids to it.
    file: PathBuf,
    workers: Vec<WorkerProcess>,
    relays: Vec<RelayDaemon>,
    nats: LocalBroker,
    rabbitmq: LocalBroker,
    _folder: TempDir,
}

impl KilledFleet {
    async fn start(queue: RelayedQueue) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let nats = start_broker(BrokerKind::Nats).await;
        make_stream(&nats).await;
        let rabbitmq = start_broker(BrokerKind::RabbitMq).await;
        declare_queue(&rabbitmq).await;
        // A queue that was declared a moment before a crash may be lost.
        let rabbitmq = restart(rabbitmq).await;
        let mut fleet = Self {
            settings: vec![
                relay_settings(&queue, NATS, &nats, "nats", "subject"),
                relay_settings(&queue, RABBITMQ, &rabbitmq, "rabbitmq", "routing_key"),
            ],
            file: folder.path().join("ids"),
            queue,
            workers: Vec::new(),
            relays: Vec::new(),
            nats,
            rabbitmq,
            _folder: folder,
        };
        for _ in 0..2 {
            fleet.add_worker();
            fleet.add_relay().await;
        }
        fleet
    }

    fn add_worker(&mut self) {
        let worker = WorkerProcess::start(&self.queue, Some(&self.file));
        self.workers.push(worker);
    }

    async fn add_relay(&mut self) {
        let settings: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        self.relays.push(RelayDaemon::start(&settings).await);
    }

    /// Kills something, and starts it again.
    async fn kill(mut self, number: usize) -> Self {
        let outage = Duration::from_millis(300);
        match number % 4 {
            0 => {
                drop(self.workers.remove(0));
                sleep(outage).await;
                self.add_worker();
            }
            1 => {
                self.relays.remove(0).daemon.kill();
                sleep(outage).await;
                self.add_relay().await;
            }
            2 => self.nats = crash(self.nats, outage).await,
            _ => self.rabbitmq = crash(self.rabbitmq, outage).await,
        }
        self
    }

    /// What arrived, by queue, with repetitions.
    async fn arrived(&self) -> BTreeMap<&'static str, Vec<String>> {
        let worked = std::fs::read_to_string(&self.file).unwrap();
        BTreeMap::from([
            (WORK, worked.lines().map(str::to_owned).collect()),
            (NATS, nats_ids(&self.nats).await),
            (RABBITMQ, rabbitmq_ids(&self.rabbitmq).await),
        ])
    }
}

fn relay_settings(
    queue: &RelayedQueue,
    name: &str,
    broker: &LocalBroker,
    kind: &str,
    address: &str,
) -> String {
    let (source, url) = (queue.as_end("source", name), broker.url());
    let settings = format!(
        "[relay.r]\nlease = \"9s\"\nconcurrency = {HELD_MAX}\nbreaker_pause = \"100ms\"\nbreaker_pause_max = \"200ms\"\n{source}\
         [relay.r.sink]\nkind = \"{kind}\"\nurl = \"{url}\"\n{address} = \"{name}\"\ntime_limit = \"2s\"\n"
    );
    settings.replace("relay.r", &format!("relay.{name}"))
}

async fn jetstream(broker: &LocalBroker) -> jetstream::Context {
    jetstream::new(async_nats::connect(broker.url()).await.unwrap())
}

/// A stream that drops no repetition.
async fn make_stream(broker: &LocalBroker) {
    let config = jetstream::stream::Config {
        name: NATS.to_owned(),
        subjects: vec![NATS.to_owned()],
        // The shortest.
        duplicate_window: Duration::from_millis(100),
        ..Default::default()
    };
    jetstream(broker).await.create_stream(config).await.unwrap();
}

async fn nats_ids(broker: &LocalBroker) -> Vec<String> {
    let stream = jetstream(broker).await.get_stream(NATS).await.unwrap();
    let count = stream.get_info().await.unwrap().state.messages;
    let config = jetstream::consumer::pull::Config::default();
    let consumer = stream.create_consumer(config).await.unwrap();
    let messages = consumer.stream().messages().await.unwrap();
    let messages = messages.take(usize::try_from(count).unwrap());
    let ids = messages.then(async |message| {
        let message = message.unwrap();
        message.ack().await.unwrap();
        let headers = message.headers.clone().unwrap();
        headers.get("Nats-Msg-Id").unwrap().to_string()
    });
    ids.collect().await
}

async fn amqp(broker: &LocalBroker) -> Connection {
    Connection::connect(&broker.url(), ConnectionProperties::default())
        .await
        .unwrap()
}

async fn declare_queue(broker: &LocalBroker) {
    let channel = amqp(broker).await.create_channel().await.unwrap();
    let options = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    let declared = channel.queue_declare(RABBITMQ.into(), options, FieldTable::default());
    declared.await.unwrap();
}

async fn rabbitmq_ids(broker: &LocalBroker) -> Vec<String> {
    let connection = amqp(broker).await;
    let channel = connection.create_channel().await.unwrap();
    let options = BasicConsumeOptions {
        no_ack: true,
        ..BasicConsumeOptions::default()
    };
    let consuming =
        channel.basic_consume(RABBITMQ.into(), "".into(), options, FieldTable::default());
    let mut messages = consuming.await.unwrap();
    let mut ids = Vec::new();
    while let Ok(Some(message)) = timeout(Duration::from_secs(2), messages.next()).await {
        let properties = message.unwrap().properties;
        ids.push(properties.message_id().as_ref().unwrap().to_string());
    }
    ids
}

/// Kills under load, and prints what was lost and repeated.
async fn kill(kills: usize) {
    let stack = Stack::builder().start().await;
    let mut fleet = KilledFleet::start(RelayedQueue::new(&stack, "kills").await).await;
    let stop = Arc::new(AtomicBool::new(false));
    let publishing = tokio::spawn(publish_until(fleet.queue.client.clone(), Arc::clone(&stop)));
    for number in 0..kills {
        sleep(Duration::from_secs(1)).await;
        fleet = fleet.kill(number).await;
    }
    stop.store(true, Ordering::Relaxed);
    let published = publishing.await.unwrap();
    for queue in [WORK, NATS, RABBITMQ] {
        fleet.queue.drained_of(queue).await;
    }
    let arrived = fleet.arrived().await;
    for (queue, published) in published {
        let ids: BTreeSet<String> = arrived[queue].iter().cloned().collect();
        let lost = published.difference(&ids).count();
        let repeated = arrived[queue].len() - ids.len();
        print_figure(&format!(
            "{queue}: {kills} kills, {} jobs: {lost} lost, {repeated} repeated",
            published.len()
        ));
        assert_eq!(lost, 0);
        // What was not confirmed when something was killed: half of the kills concern a queue.
        assert!(repeated <= kills.div_ceil(2) * 2 * HELD_MAX);
    }
}
