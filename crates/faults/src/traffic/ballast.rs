//! A client that keeps one bucket large: an audit looks at a bucket of more than 16 chunks in pieces, while its jobs change.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;

use super::{Client, LARGE_QUEUE};
use crate::history::Terms;

const S: u64 = 1_000_000;
const PAUSE: Duration = Duration::from_secs(1);
/// With these about 200 jobs wait, ten of them in a chunk.
const JOBS: usize = 16;
const DELAYS_S: std::ops::Range<u64> = 10..15;
/// Not compressed, and stored in the record.
const BYTES: std::ops::Range<usize> = 700..950;

/// The client.
pub(super) struct Ballast {
    client: Client,
    random: StdRng,
}

impl Ballast {
    pub(super) const fn new(client: Client, random: StdRng) -> Self {
        Self { client, random }
    }

    /// Publishes until that is over. It starts no consumer.
    pub(super) async fn run(mut self) -> Vec<JoinHandle<()>> {
        while !self.client.shared.is_publishing_over() {
            let delay = self.random.random_range(DELAYS_S) * S;
            let jobs = (0..JOBS).map(|_| Terms {
                number: self.client.shared.next_number(),
                delay,
                tries: 3,
                bytes: self.random.random_range(BYTES),
                ..Terms::default()
            });
            let jobs = jobs.collect();
            self.client.publish(LARGE_QUEUE, jobs).await;
            tokio::time::sleep(PAUSE).await;
        }
        Vec::new()
    }
}
