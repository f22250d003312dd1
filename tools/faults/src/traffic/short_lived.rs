//! A client of short-lived queues: each has a new name, is used for some seconds, and is then purged or left.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinHandle;

use super::client::FaultClient;
use super::consumer::{ConsumerBehavior, RunConsumer};
use super::draw;
use crate::history::ClientRequest;

const DEAD_MAX: u64 = 1000;

/// The client.
pub(super) struct ShortLivedQueues {
    client: FaultClient,
    random: StdRng,
}

impl ShortLivedQueues {
    pub(super) const fn new(client: FaultClient, random: StdRng) -> Self {
        Self { client, random }
    }

    /// Uses one queue after the other until publishing ends. The returned consumers continue, and consume what was left
    /// in the queues.
    pub(super) async fn run(mut self) -> Vec<JoinHandle<()>> {
        let mut consumers = Vec::new();
        while !self.client.shared.is_publishing_over() {
            match self.client.shared.next_queue() {
                Some(queue) => {
                    consumers.push(self.start_consumer(queue));
                    self.use_queue(queue).await;
                }
                None => return consumers,
            }
        }
        consumers
    }

    fn start_consumer(&mut self, queue: u16) -> JoinHandle<()> {
        let random = StdRng::seed_from_u64(self.random.random());
        let consumer = RunConsumer::new(
            self.client.new_sibling(),
            random,
            ConsumerBehavior::Of(queue),
        );
        tokio::spawn(consumer.run())
    }

    async fn use_queue(&mut self, queue: u16) {
        for _ in 0..self.random.random_range(1..6) {
            let versions = draw::versions(&mut self.random, &self.client.shared);
            self.client.publish(queue, versions).await;
            let pause = Duration::from_millis(self.random.random_range(0..800));
            tokio::time::sleep(pause).await;
        }
        if self.random.random_bool(0.5) {
            self.client.send(ClientRequest::PurgeReady { queue }).await;
            let limit = DEAD_MAX;
            self.client
                .send(ClientRequest::PurgeDead { queue, limit })
                .await;
        }
    }
}
