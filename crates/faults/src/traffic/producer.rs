//! A client that publishes, and cancels some of it again.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use super::{Client, QUEUES};
use crate::history::{Outcome, Terms};

const S: u64 = 1_000_000;
/// The mean pause between two requests of a producer.
const PAUSE_MS: u64 = 120;
const DELAY_MAX_S: u64 = 8;
const BULK_MAX: usize = 12;

/// One producer.
pub(super) struct Producer {
    client: Client,
    random: StdRng,
}

impl Producer {
    pub(super) const fn new(client: Client, random: StdRng) -> Self {
        Self { client, random }
    }

    pub(super) async fn run(mut self) {
        while !self.client.shared.is_publishing_over() {
            let queue = self.random.random_range(0..QUEUES);
            let jobs = self.draw_jobs();
            let outcome = self.client.publish(queue, jobs.clone()).await;
            if let Outcome::Published(ids) = outcome {
                for (id, terms) in ids.iter().zip(&jobs) {
                    self.maybe_cancel(queue, id, terms).await;
                }
            }
            let pause = Duration::from_millis(self.random.random_range(0..2 * PAUSE_MS));
            tokio::time::sleep(pause).await;
        }
    }

    async fn maybe_cancel(&mut self, queue: u16, id: &str, terms: &Terms) {
        if self.random.random_bool(0.05) {
            self.client.cancel(queue, id, terms.number).await;
        }
    }

    fn draw_jobs(&mut self) -> Vec<Terms> {
        let random = &mut self.random;
        let count = match random.random_bool(0.1) {
            true => random.random_range(2..=BULK_MAX),
            false => 1,
        };
        let delay_s = match random.random_bool(0.3) {
            true => 0,
            false => random.random_range(0..=DELAY_MAX_S),
        };
        let ttl_s = match random.random_bool(0.1) {
            true => delay_s + random.random_range(2..12),
            false => 0,
        };
        let tries = random.random_range(1..=3);
        let numbers = (0..count).map(|_| {
            let bytes = match random.random_range(0..20) {
                0 => random.random_range(20_000..120_000),
                1..=4 => random.random_range(1000..6000),
                _ => random.random_range(40..300),
            };
            Terms {
                number: self.client.shared.next_number(),
                delay: delay_s * S,
                ttl: ttl_s * S,
                tries,
                bytes,
                ..Terms::default()
            }
        });
        numbers.collect()
    }
}
