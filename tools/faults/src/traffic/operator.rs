//! A client that acts like an operator: it respawns, purges and peeks.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;

use super::client::{FaultClient, by_id};
use super::draw;
use super::shared::{PURGED, QUEUES};
use crate::history::{ClientRequest, VersionSpec};

/// The mean pause between two requests.
const PAUSE_MS: u64 = 200;
const RESPAWN_MAX: u64 = 10;
const PURGE_MAX: u64 = 5;
/// Jobs published right before a purge of ready jobs, so that consumers have not reserved all of
/// them.
const BURST: u64 = 24;
const BURST_BYTES: usize = 100;

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
            if let Some(request) = self.draw().await {
                self.client.send(request).await;
            }
            let pause = Duration::from_millis(self.random.random_range(0..2 * PAUSE_MS));
            tokio::time::sleep(pause).await;
        }
        Vec::new()
    }

    async fn draw(&mut self) -> Option<ClientRequest> {
        let queue = self.random.random_range(0..QUEUES);
        let purged = PURGED[self.random.random_range(0..PURGED.len())];
        Some(match self.random.random_range(0..100) {
            0..30 => ClientRequest::Respawn {
                queue,
                limit: self.random.random_range(1..=RESPAWN_MAX),
            },
            30..60 => {
                let recent = self.client.shared.recent(&mut self.random)?;
                ClientRequest::Show {
                    queue: recent.queue,
                    job: by_id(&recent.id),
                }
            }
            60..75 => ClientRequest::PeekReady { queue },
            75..85 => ClientRequest::PeekDead { queue },
            85..93 => {
                self.publish_burst(purged).await;
                ClientRequest::PurgeReady { queue: purged }
            }
            _ => ClientRequest::PurgeDead {
                queue: purged,
                limit: self.random.random_range(1..=PURGE_MAX),
            },
        })
    }

    async fn publish_burst(&mut self, queue: u16) {
        let first = VersionSpec {
            delay: 0,
            ..draw::version(&mut self.random, &self.client.shared)
        };
        let shared = &self.client.shared;
        let versions = (0..BURST).map(|_| draw::plain_like(&first, BURST_BYTES, shared));
        let versions = versions.collect();
        self.client.publish(queue, versions).await;
    }
}
