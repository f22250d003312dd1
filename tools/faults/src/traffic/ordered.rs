//! A client with a private queue, which publishes some jobs and then consumes them one by one. No other consumer waits
//! for the queue and leaves without a job, so the order of its jobs can be judged.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;

use super::client::FaultClient;
use super::consumer::{ConsumerBehavior, RunConsumer};
use super::shared::ORDERED_QUEUE;
use crate::history::{RequestOutcome, VersionSpec};

const BURST_MAX: usize = 8;
const BYTES: usize = 100;
const TRIES: u64 = 3;
const TTR: u64 = 3_000_000;
const TIMEOUT: Duration = Duration::from_secs(1);
/// The mean pause between two bursts.
const PAUSE_MS: u64 = 400;

pub(super) struct OrderedClient {
    client: FaultClient,
    random: StdRng,
}

impl OrderedClient {
    pub(super) const fn new(client: FaultClient, random: StdRng) -> Self {
        Self { client, random }
    }

    /// Runs until publishing ends. The returned consumer consumes the remaining jobs.
    pub(super) async fn run(mut self) -> Vec<JoinHandle<()>> {
        while !self.client.shared.is_publishing_over() {
            let published = self.publish().await;
            self.consume(published).await;
            let pause = Duration::from_millis(self.random.random_range(0..2 * PAUSE_MS));
            tokio::time::sleep(pause).await;
        }
        let habit = ConsumerBehavior::Of(ORDERED_QUEUE);
        let rest = RunConsumer::new(self.client.new_sibling(), self.random, habit);
        vec![tokio::spawn(rest.run())]
    }

    /// Publishes a burst of jobs. Returns how many publishes were acknowledged.
    async fn publish(&mut self) -> usize {
        let mut published = 0;
        for _ in 0..self.random.random_range(2..=BURST_MAX) {
            let version = VersionSpec {
                number: self.client.shared.next_number(),
                bytes: BYTES,
                tries: TRIES,
                ..VersionSpec::default()
            };
            let outcome = self.client.publish(ORDERED_QUEUE, vec![version]).await;
            published += usize::from(matches!(outcome, RequestOutcome::Published(_)));
        }
        published
    }

    /// Consumes up to `jobs` jobs.
    async fn consume(&mut self, jobs: usize) {
        let queues = [ORDERED_QUEUE];
        for _ in 0..jobs {
            let reserving = self.client.reserve(&queues, Some(TTR), 1, TIMEOUT, None);
            let Some(job) = reserving.await.pop() else {
                return;
            };
            self.client.ack(job).await;
        }
    }
}
