//! A client that has a queue to itself, publishes some jobs and then consumes them one by one. No other consumer waits for
//! the queue and leaves with nothing, so the order of its jobs can be judged.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;

use super::{Client, Consumer, Habit, ORDERED_QUEUE};
use crate::history::{Outcome, Terms};

const BURST_MAX: usize = 8;
const BYTES: usize = 100;
const TRIES: u64 = 3;
const TTR_S: u64 = 3;
const TIMEOUT_S: u64 = 1;
/// The mean pause between two bursts.
const PAUSE_MS: u64 = 400;

/// The client.
pub(super) struct Ordered {
    client: Client,
    random: StdRng,
}

impl Ordered {
    pub(super) const fn new(client: Client, random: StdRng) -> Self {
        Self { client, random }
    }

    /// Goes on until publishing is over. The consumer that it returns takes what is left.
    pub(super) async fn run(mut self) -> Vec<JoinHandle<()>> {
        while !self.client.shared.is_publishing_over() {
            let published = self.publish().await;
            self.consume(published).await;
            let pause = Duration::from_millis(self.random.random_range(0..2 * PAUSE_MS));
            tokio::time::sleep(pause).await;
        }
        let habit = Habit::Of(ORDERED_QUEUE);
        let rest = Consumer::new(self.client.another(), self.random, habit);
        vec![tokio::spawn(rest.run())]
    }

    /// Returns how many jobs were certainly published.
    async fn publish(&mut self) -> usize {
        let mut published = 0;
        for _ in 0..self.random.random_range(2..=BURST_MAX) {
            let job = Terms {
                number: self.client.shared.next_number(),
                bytes: BYTES,
                tries: TRIES,
                ..Terms::default()
            };
            let outcome = self.client.publish(ORDERED_QUEUE, vec![job]).await;
            published += usize::from(matches!(outcome, Outcome::Published(_)));
        }
        published
    }

    /// Consumes so many jobs, unless there are fewer.
    async fn consume(&mut self, jobs: usize) {
        let queues = [ORDERED_QUEUE];
        for _ in 0..jobs {
            let consuming = self.client.consume(&queues, TTR_S, 1, TIMEOUT_S, None);
            let Outcome::Delivered(delivered) = consuming.await else {
                return;
            };
            let Some(job) = delivered.first() else {
                return;
            };
            if let Some(number) = job.number {
                self.client.ack(ORDERED_QUEUE, &job.id, number).await;
            }
        }
    }
}
