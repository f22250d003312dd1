//! A producer of queues whose jobs wait: bursts of jobs of several groups and priorities.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;

use super::draw;
use crate::history::VersionSpec;
use crate::traffic::client::FaultClient;

const BURST_MAX: usize = 14;
/// The mean pause between two bursts.
const PAUSE_MS: u64 = 800;

pub(in crate::traffic) struct HeldProducer {
    client: FaultClient,
    random: StdRng,
    queue: u16,
}

impl HeldProducer {
    pub(in crate::traffic) const fn new(client: FaultClient, random: StdRng, queue: u16) -> Self {
        Self {
            client,
            random,
            queue,
        }
    }

    /// Publishes until publishing ends. Starts no consumers.
    pub(in crate::traffic) async fn run(mut self) -> Vec<JoinHandle<()>> {
        while !self.client.shared.is_publishing_over() {
            let count = self.random.random_range(1..=BURST_MAX);
            let (random, shared) = (&mut self.random, &self.client.shared);
            let versions: Vec<VersionSpec> = (0..count)
                .map(|_| draw::version_of_group(random, shared))
                .collect();
            self.client.publish(self.queue, versions).await;
            let pause = Duration::from_millis(self.random.random_range(0..2 * PAUSE_MS));
            tokio::time::sleep(pause).await;
        }
        Vec::new()
    }
}
