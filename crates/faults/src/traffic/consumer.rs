//! A client that consumes: mostly well, sometimes like a program that crashes, dawdles or hangs up.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use super::{CALM_QUEUES, Client, QUEUES};
use crate::history::{Delivered, Outcome};

/// One consumer.
pub(super) struct Consumer {
    client: Client,
    random: StdRng,
    queues: Vec<u16>,
    is_rough: bool,
}

impl Consumer {
    /// A rough one hangs up at times.
    pub(super) fn new(client: Client, mut random: StdRng, is_rough: bool) -> Self {
        let mut queues: Vec<u16> = match is_rough {
            true => (CALM_QUEUES..QUEUES).collect(),
            false => (0..CALM_QUEUES).collect(),
        };
        let turn = random.random_range(0..queues.len());
        queues.rotate_left(turn);
        Self {
            client,
            random,
            queues,
            is_rough,
        }
    }

    pub(super) async fn run(mut self) {
        while !self.client.shared.is_over() {
            let ttr_s = self.random.random_range(1..=3);
            let count = match self.random.random_bool(0.7) {
                true => 1,
                false => self.random.random_range(2..=4),
            };
            let timeout_s = self.random.random_range(1..=2);
            let hang_up = self.draw_hang_up();
            let consuming = self
                .client
                .consume(&self.queues, ttr_s, count, timeout_s, hang_up);
            if let Outcome::Delivered(jobs) = consuming.await {
                self.work_on(jobs, ttr_s).await;
            }
        }
    }

    fn draw_hang_up(&mut self) -> Option<Duration> {
        let is_hanging_up =
            self.is_rough && !self.client.shared.is_careful() && self.random.random_bool(0.25);
        is_hanging_up.then(|| Duration::from_micros(self.random.random_range(200..1_500_000)))
    }

    async fn work_on(&mut self, jobs: Vec<Delivered>, ttr_s: u64) {
        for job in jobs {
            let Some(number) = job.number else {
                continue;
            };
            let fate = match self.client.shared.is_careful() {
                true => 99,
                false => self.random.random_range(0..100),
            };
            match fate {
                // A crash: nobody acks it.
                0..12 => {}
                // It takes longer than the lease, and is acked all the same.
                12..14 => {
                    let over = Duration::from_millis(self.random.random_range(0..800));
                    tokio::time::sleep(Duration::from_secs(ttr_s) + over).await;
                    self.client.ack(job.queue, &job.id, number).await;
                }
                _ => drop(self.client.ack(job.queue, &job.id, number).await),
            }
        }
    }
}
