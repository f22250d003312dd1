//! A client that acts like an operator: it respawns, purges and peeks.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;

use super::client::FaultClient;
use super::draw;
use super::shared::{PURGED, QUEUES, RecentJob, locked};
use crate::history::JobParameters;

/// The mean pause between two requests.
const PAUSE_MS: u64 = 200;
const RESPAWN_MAX: u64 = 10;
const PURGE_MAX: u64 = 5;
/// Jobs published right before a purge of ready jobs, so that consumers have not reserved all of
/// them.
const BURST: u64 = 24;

/// One operator.
pub(super) struct Operator {
    client: FaultClient,
    random: StdRng,
}

impl Operator {
    pub(super) const fn new(client: FaultClient, random: StdRng) -> Self {
        Self { client, random }
    }

    /// Sends requests until publishing ends. Starts no consumers.
    pub(super) async fn run(mut self) -> Vec<JoinHandle<()>> {
        while !self.client.shared.is_publishing_over() {
            let queue = self.random.random_range(0..QUEUES);
            match self.random.random_range(0..100) {
                0..30 => {
                    let limit = self.random.random_range(1..=RESPAWN_MAX);
                    self.client.respawn(queue, limit).await;
                }
                30..60 => self.peek_recent().await,
                60..75 => drop(self.client.peek_head(queue).await),
                75..85 => drop(self.client.peek_dead(queue).await),
                85..93 => self.purge_ready().await,
                _ => {
                    let queue = PURGED[self.random.random_range(0..PURGED.len())];
                    let limit = self.random.random_range(1..=PURGE_MAX);
                    self.client.purge_dead(queue, limit).await;
                }
            }
            let pause = Duration::from_millis(self.random.random_range(0..2 * PAUSE_MS));
            tokio::time::sleep(pause).await;
        }
        Vec::new()
    }

    async fn peek_recent(&mut self) {
        let recent = {
            let all = locked(&self.client.shared.recent);
            match all.len() {
                0 => return,
                length => all[self.random.random_range(0..length)].clone(),
            }
        };
        let RecentJob { queue, id, number } = recent;
        self.client.peek(queue, &id, number).await;
    }

    async fn purge_ready(&mut self) {
        let queue = PURGED[self.random.random_range(0..PURGED.len())];
        let first = JobParameters {
            delay: 0,
            is_binary: false,
            attributes: 0,
            ..draw::job(&mut self.random, &self.client.shared)
        };
        let shared = &self.client.shared;
        let jobs = (0..BURST).map(|_| JobParameters {
            number: shared.next_number(),
            bytes: 100,
            ..first
        });
        let jobs = jobs.collect();
        self.client.publish(queue, jobs).await;
        self.client.purge_ready(queue).await;
    }
}
