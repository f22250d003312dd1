//! A producer of the lmstfy wire on queues that native clients use, too.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;

use crate::history::JobParameters;
use crate::traffic::client::FaultClient;
use crate::traffic::draw;
use crate::traffic::shared::MIXED_QUEUES;

/// The mean pause between two requests.
const PAUSE_MS: u64 = 300;

/// The producer. Its jobs do not expire, and it does not cancel them.
pub(in crate::traffic) struct LmstfyProducer {
    client: FaultClient,
    random: StdRng,
}

impl LmstfyProducer {
    pub(in crate::traffic) const fn new(client: FaultClient, random: StdRng) -> Self {
        Self { client, random }
    }

    /// Publishes until publishing ends. Starts no consumers.
    pub(in crate::traffic) async fn run(mut self) -> Vec<JoinHandle<()>> {
        while !self.client.shared.is_publishing_over() {
            let queue = self.random.random_range(MIXED_QUEUES);
            let job = draw::job(&mut self.random, &self.client.shared);
            let job = JobParameters {
                ttl: 0,
                delay: job.delay.min(4_000_000),
                ..job
            };
            self.client.publish(queue, vec![job]).await;
            let pause = Duration::from_millis(self.random.random_range(0..2 * PAUSE_MS));
            tokio::time::sleep(pause).await;
        }
        Vec::new()
    }
}
