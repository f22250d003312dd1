//! A client that publishes jobs, and cancels or replaces some of them.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;

use super::client::FaultClient;
use super::draw;
use super::shared::RecentJob;
use crate::history::{JobParameters, RequestOutcome};

/// The mean pause between two requests of a producer.
const PAUSE_MS: u64 = 120;
/// How often a client publishes the same again, as another job, if it got no clear answer.
const RETRIES: usize = 3;

/// One producer.
pub(super) struct Producer {
    client: FaultClient,
    random: StdRng,
    queues: Vec<u16>,
}

impl Producer {
    pub(super) fn new(client: FaultClient, random: StdRng, queues: &[u16]) -> Self {
        Self {
            client,
            random,
            queues: queues.to_vec(),
        }
    }

    /// Publishes until publishing ends. Starts no consumers.
    pub(super) async fn run(mut self) -> Vec<JoinHandle<()>> {
        while !self.client.shared.is_publishing_over() {
            let queue = self.queues[self.random.random_range(0..self.queues.len())];
            let jobs = draw::jobs(&mut self.random, &self.client.shared);
            self.publish(queue, jobs).await;
            let pause = Duration::from_millis(self.random.random_range(0..2 * PAUSE_MS));
            tokio::time::sleep(pause).await;
        }
        Vec::new()
    }

    async fn publish(&mut self, queue: u16, mut jobs: Vec<JobParameters>) {
        for _ in 0..=RETRIES {
            match self.client.publish(queue, jobs.clone()).await {
                RequestOutcome::Published(ids) => {
                    for (id, terms) in ids.iter().zip(&jobs) {
                        self.follow_up(queue, id, terms).await;
                    }
                    return;
                }
                outcome if outcome.is_unknown() && !self.client.shared.is_publishing_over() => {
                    for job in &mut jobs {
                        job.number = self.client.shared.next_number();
                    }
                }
                _ => return,
            }
        }
    }

    async fn follow_up(&mut self, queue: u16, id: &str, terms: &JobParameters) {
        match self.random.random_range(0..100) {
            0..5 => drop(self.client.cancel(queue, id, terms.number).await),
            5..9 => {
                let job = draw::job(&mut self.random, &self.client.shared);
                let replaced = terms.number;
                self.client.republish(queue, id, replaced, job).await;
            }
            _ => self.client.shared.add_recent(RecentJob {
                queue,
                id: id.to_owned(),
                number: terms.number,
            }),
        }
    }
}
