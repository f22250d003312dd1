//! A client that keeps one bucket large: an audit reads a bucket of more than 16 chunks in parts, while its jobs
//! change.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;

use super::client::FaultClient;
use super::shared::LARGE_QUEUE;
use crate::history::JobParameters;

const S: u64 = 1_000_000;
const PAUSE: Duration = Duration::from_secs(1);
/// Jobs per publish. With these about 200 jobs are delayed, about ten per chunk.
const JOBS: usize = 16;
const DELAYS_S: std::ops::Range<u64> = 10..15;
/// Body sizes that are not compressed and are stored in the record.
const BYTES: std::ops::Range<usize> = 700..950;

/// The client.
pub(super) struct LargeJobProducer {
    client: FaultClient,
    random: StdRng,
}

impl LargeJobProducer {
    pub(super) const fn new(client: FaultClient, random: StdRng) -> Self {
        Self { client, random }
    }

    /// Publishes until publishing ends. Starts no consumers.
    pub(super) async fn run(mut self) -> Vec<JoinHandle<()>> {
        while !self.client.shared.is_publishing_over() {
            let delay = self.random.random_range(DELAYS_S) * S;
            let jobs = (0..JOBS).map(|_| JobParameters {
                number: self.client.shared.next_number(),
                delay,
                tries: 3,
                bytes: self.random.random_range(BYTES),
                ..JobParameters::default()
            });
            let jobs = jobs.collect();
            self.client.publish(LARGE_QUEUE, jobs).await;
            tokio::time::sleep(PAUSE).await;
        }
        Vec::new()
    }
}
