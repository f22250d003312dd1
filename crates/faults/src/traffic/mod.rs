//! Clients at work: good ones, careless ones, and some that hang up.
//!
//! Most queues have consumers that go on polling: there a job that comes late was late. A few queues have consumers
//! that hang up at any moment of a poll; whether such a poll took a job, nobody can tell.

mod client;
mod consumer;
mod producer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rand::SeedableRng;
use rand::rngs::StdRng;
use tidegate_testkit::Queue;
use tokio::task::JoinHandle;

use crate::plan::Plan;
use crate::recorder::Recorder;
pub(crate) use client::Client;
use consumer::Consumer;
use producer::Producer;

/// Queues whose consumers never hang up.
pub(crate) const CALM_QUEUES: u16 = 8;
/// Queues whose consumers do.
const ROUGH_QUEUES: u16 = 4;
pub(crate) const QUEUES: u16 = CALM_QUEUES + ROUGH_QUEUES;

/// The name of a queue.
pub(crate) fn queue_name(number: u16) -> String {
    format!("q{number}")
}

/// What all clients of a run share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) recorder: Recorder,
    numbers: AtomicU64,
    publishing_ended: AtomicBool,
    ended: AtomicBool,
    /// Whether consumers do nothing but consume and ack, so that everything comes to its end.
    is_careful: AtomicBool,
}

/// All clients of a run.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) shared: Arc<Shared>,
    producers: Vec<JoinHandle<()>>,
    consumers: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Starts them. `doors` are the ways to the APIs: each client prefers one, and takes another where that
    /// one fails.
    pub(crate) fn start(plan: &Plan, doors: &[Queue]) -> Self {
        let shared = Arc::new(Shared::default());
        let (mut producers, mut consumers) = (Vec::new(), Vec::new());
        let mut seeds = plan.seed;
        let mut start = |number: usize| {
            seeds = seeds.wrapping_add(1);
            let client = Client::new(doors, number, Arc::clone(&shared));
            (client, StdRng::seed_from_u64(seeds.rotate_left(32)))
        };
        for number in 0..plan.producers {
            let (client, random) = start(number);
            producers.push(tokio::spawn(Producer::new(client, random).run()));
        }
        for number in 0..plan.consumers {
            let (client, random) = start(number);
            let is_rough = number % 3 == 2;
            consumers.push(tokio::spawn(Consumer::new(client, random, is_rough).run()));
        }
        Self {
            shared,
            producers,
            consumers,
        }
    }

    /// Ends publishing, and has consumers be careful from now on.
    pub(crate) async fn calm_down(&mut self) {
        self.shared.is_careful.store(true, Ordering::Relaxed);
        self.shared.publishing_ended.store(true, Ordering::Relaxed);
        ended(&mut self.producers).await;
    }

    /// Ends everybody.
    pub(crate) async fn end(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        ended(&mut self.consumers).await;
    }
}

async fn ended(clients: &mut Vec<JoinHandle<()>>) {
    for client in clients.drain(..) {
        let ended = client.await;
        ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    }
}

impl Shared {
    fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn is_publishing_over(&self) -> bool {
        self.publishing_ended.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn is_careful(&self) -> bool {
        self.is_careful.load(Ordering::Relaxed)
    }
}
