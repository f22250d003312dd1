//! The clients of a run.
//!
//! | client | does |
//! |---|---|
//! | [`producer`] | publishes, cancels, republishes; some give up after 1 s and publish the same again as another job |
//! | [`consumer`] | consumes and acks; sometimes does not ack, is slow, or hangs up |
//! | [`native`] | clients of the native API; producers and consumers of the lmstfy wire use two of their queues |
//! | [`operator`] | respawns, purges and peeks |
//! | [`ordered`] | publishes some jobs to a private queue, then consumes them |
//! | [`producer`], [`consumer`] of the direct queue | the same, without a proxy between them and the APIs |
//! | [`short_lived`] | uses a queue for some seconds, then leaves or purges it |
//!
//! Most queues have consumers that poll continuously, so that the lateness of their jobs can be judged. The consumers
//! of a few queues hang up at any time; it is unknown whether such a poll reserved a job.

mod client;
mod consumer;
mod draw;
mod held;
mod native;
mod operator;
mod ordered;
mod producer;
mod shared;
mod short_lived;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tidegate_testkit::QueueClient;
use tokio::task::JoinHandle;

use crate::plan::Plan;
pub(crate) use client::FaultClient;
use consumer::{ConsumerBehavior, RunConsumer};
pub(crate) use held::{held_queues, policy_of};
use native::{Editor, HeldProducer, LeaseBehavior, NativeProducer, NativeWorker, TurnClient};
use operator::Operator;
use ordered::OrderedClient;
use producer::{Producer, ProducerBehavior};
pub(crate) use shared::{ClientState, LANED, LIMIT, LIMITED_QUEUE, all_queues, steady_queues};
use shared::{DIRECT_QUEUE, GROUPED_QUEUE, LARGE_QUEUE, MIXED_QUEUES, QUEUES, RATED_QUEUE};
use short_lived::ShortLivedQueues;

const GUESTS: usize = 4;
/// Consumers per direct producer; several, since a busy consumer requests no jobs.
const DIRECT_CONSUMERS: usize = 4;
const IMPATIENCE: Duration = Duration::from_secs(1);
const NATIVE_PRODUCERS: usize = 3;
/// How native workers lease.
const WORKERS: [LeaseBehavior; 6] = [
    LeaseBehavior::Short,
    LeaseBehavior::Short,
    LeaseBehavior::Long,
    LeaseBehavior::Long,
    LeaseBehavior::OfJobs,
    LeaseBehavior::OfJobs,
];
/// Workers of each queue with a limit.
const HELD_WORKERS: usize = 4;
/// Consumers of the lmstfy wire for each queue that both wires use.
const MIXED_CONSUMERS: usize = 2;

/// The API endpoints of clients.
#[derive(Debug)]
pub(crate) struct Endpoints {
    /// Through proxies.
    pub(crate) proxied: Vec<QueueClient>,
    /// Directly at each API.
    pub(crate) direct: Vec<QueueClient>,
}

/// The tokens of a run, besides the token of most clients.
#[derive(Debug, Clone)]
pub(crate) struct RunTokens {
    /// The token with a rate limit.
    pub(crate) limited: String,
    /// The first token that is revoked.
    pub(crate) guest: String,
    /// The API key of native clients.
    pub(crate) api_key: String,
}

/// All clients of a run.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) shared: Arc<ClientState>,
    /// Clients that end when publishing ends. Each returns the consumers that it started.
    producers: Vec<JoinHandle<Vec<JoinHandle<()>>>>,
    consumers: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Starts all clients. Each client uses one of the `endpoints` first, and switches to another one after a failure.
    pub(crate) fn start(plan: &Plan, endpoints: &Endpoints, tokens: &RunTokens) -> Self {
        let shared = Arc::new(ClientState::new(&tokens.guest));
        let mut load_clients = ClientFactory {
            endpoints: &endpoints.proxied,
            shared: Arc::clone(&shared),
            seed: plan.seed,
            number: 0,
        };
        let (mut producers, mut consumers) = (Vec::new(), Vec::new());
        let any = ProducerBehavior::Any;
        for number in 0..plan.producers {
            let (client, random) = load_clients.next();
            let client = match number % 3 {
                2 => client.with_timeout(IMPATIENCE),
                _ => client,
            };
            let producer = Producer::new(client, random, any, (0..QUEUES).collect());
            producers.push(tokio::spawn(producer.run()));
        }
        let (mut client, random) = load_clients.next();
        client.use_token(LIMIT.token, &tokens.limited);
        let limited = Producer::new(client, random, any, vec![LIMITED_QUEUE]);
        producers.push(tokio::spawn(limited.run()));
        let (client, random) = load_clients.next();
        let ballast = Producer::new(client, random, ProducerBehavior::Ballast, vec![LARGE_QUEUE]);
        producers.push(tokio::spawn(ballast.run()));
        let (client, random) = load_clients.next();
        producers.push(tokio::spawn(Operator::new(client, random).run()));
        let (client, random) = load_clients.next();
        producers.push(tokio::spawn(OrderedClient::new(client, random).run()));
        let (client, random) = load_clients.next();
        producers.push(tokio::spawn(ShortLivedQueues::new(client, random).run()));
        for number in 0..plan.consumers {
            let behavior = match number % 3 {
                2 => ConsumerBehavior::Rough,
                _ => ConsumerBehavior::Calm,
            };
            let (client, random) = load_clients.next();
            consumers.push(tokio::spawn(
                RunConsumer::new(client, random, behavior).run(),
            ));
        }
        let (mut client, random) = load_clients.next();
        client.use_token(LIMIT.token, &tokens.limited);
        let limited = RunConsumer::new(client, random, ConsumerBehavior::Limited);
        consumers.push(tokio::spawn(limited.run()));
        for _ in 0..GUESTS {
            let (client, random) = load_clients.next();
            let guest = RunConsumer::new(client, random, ConsumerBehavior::Guest);
            consumers.push(tokio::spawn(guest.run()));
        }
        let mut all = Self {
            shared,
            producers,
            consumers,
        };
        load_clients.endpoints = &endpoints.direct;
        all.start_direct(&mut load_clients);
        load_clients.endpoints = &endpoints.proxied;
        all.start_native(&mut load_clients, &tokens.api_key);
        all.start_held(&mut load_clients, &tokens.api_key);
        all
    }

    /// Starts clients that use a separate queue, without a proxy.
    fn start_direct(&mut self, load_clients: &mut ClientFactory<'_>) {
        for _ in load_clients.endpoints {
            let (client, random) = load_clients.next();
            let (client, queues) = (client.without_proxy(), vec![DIRECT_QUEUE]);
            let producer = Producer::new(client, random, ProducerBehavior::Any, queues);
            self.producers.push(tokio::spawn(producer.run()));
            for _ in 0..DIRECT_CONSUMERS {
                let (client, random) = load_clients.next();
                let behavior = ConsumerBehavior::Of(DIRECT_QUEUE);
                let consumer = RunConsumer::new(client.without_proxy(), random, behavior);
                self.consumers.push(tokio::spawn(consumer.run()));
            }
        }
    }

    /// Starts the native clients, and clients of the lmstfy wire on the same queues.
    fn start_native(&mut self, load_clients: &mut ClientFactory<'_>, api_key: &str) {
        for _ in 0..NATIVE_PRODUCERS {
            let (client, random) = load_clients.next_native(api_key);
            let producer = NativeProducer::new(client, random);
            self.producers.push(tokio::spawn(producer.run()));
        }
        let (lmstfy, _) = load_clients.next();
        let (client, random) = load_clients.next_native(api_key);
        let editor = Editor::new(client, lmstfy, random);
        self.producers.push(tokio::spawn(editor.run()));
        let (client, random) = load_clients.next();
        let behavior = ProducerBehavior::Crossing;
        let crossing = Producer::new(client, random, behavior, MIXED_QUEUES.collect());
        self.producers.push(tokio::spawn(crossing.run()));
        for behavior in WORKERS {
            let (client, random) = load_clients.next_native(api_key);
            let worker = NativeWorker::new(client, random, behavior);
            self.consumers.push(tokio::spawn(worker.run()));
        }
        for queue in MIXED_QUEUES {
            for _ in 0..MIXED_CONSUMERS {
                let (client, random) = load_clients.next();
                let consumer = RunConsumer::new(client, random, ConsumerBehavior::Of(queue));
                self.consumers.push(tokio::spawn(consumer.run()));
            }
        }
    }

    /// Starts the clients of the queues whose jobs wait.
    fn start_held(&mut self, load_clients: &mut ClientFactory<'_>, api_key: &str) {
        for queue in [GROUPED_QUEUE, RATED_QUEUE] {
            let (client, random) = load_clients.next_native(api_key);
            let producer = HeldProducer::new(client, random, queue);
            self.producers.push(tokio::spawn(producer.run()));
            for _ in 0..HELD_WORKERS {
                let (client, random) = load_clients.next_native(api_key);
                let behavior = LeaseBehavior::Working;
                let worker = NativeWorker::of_queues(client, random, behavior, vec![queue]);
                self.consumers.push(tokio::spawn(worker.run()));
            }
        }
        let (client, random) = load_clients.next_native(api_key);
        let turns = TurnClient::new(client, random, api_key);
        self.producers.push(tokio::spawn(turns.run()));
    }

    /// Stops publishing, and makes consumers careful.
    pub(crate) async fn stop_publishing(&mut self) {
        self.shared.is_careful.store(true, Ordering::Relaxed);
        self.shared.publishing_ended.store(true, Ordering::Relaxed);
        for started in wait_for_all(&mut self.producers).await {
            self.consumers.extend(started);
        }
    }

    /// Stops all clients.
    pub(crate) async fn end(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        wait_for_all(&mut self.consumers).await;
    }
}

async fn wait_for_all<T>(clients: &mut Vec<JoinHandle<T>>) -> Vec<T> {
    let mut all = Vec::new();
    for client in clients.drain(..) {
        let ended = client.await;
        all.push(ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())));
    }
    all
}

/// Creates numbered clients, each with its random generator.
struct ClientFactory<'a> {
    endpoints: &'a [QueueClient],
    shared: Arc<ClientState>,
    seed: u64,
    number: usize,
}

impl ClientFactory<'_> {
    /// The next client, with an API key.
    fn next_native(&mut self, api_key: &str) -> (FaultClient, StdRng) {
        let (client, random) = self.next();
        (client.with_api_key(api_key), random)
    }

    fn next(&mut self) -> (FaultClient, StdRng) {
        let client = FaultClient::new(self.endpoints, self.number, Arc::clone(&self.shared));
        self.number += 1;
        let seed = self.seed.wrapping_add(self.number as u64);
        (client, StdRng::seed_from_u64(seed.rotate_left(32)))
    }
}
