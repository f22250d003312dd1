//! A native client that cancels, changes, promotes and shows what was published recently, and respawns dead jobs.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tidegate_core::IfRunning;
use tokio::task::JoinHandle;

use crate::history::{ClientRequest, JobAddress, now};
use crate::traffic::client::FaultClient;
use crate::traffic::shared::{NATIVE_QUEUES, RecentJob};

/// The mean pause between two requests.
const PAUSE_MS: u64 = 80;
const MS: u64 = 1000;
const DELAY_MAX_MS: u64 = 3000;
const RESPAWN_MAX: u64 = 5;

/// The client.
pub(in crate::traffic) struct Editor {
    client: FaultClient,
    /// A client of the lmstfy wire, for respawns.
    lmstfy: FaultClient,
    random: StdRng,
}

impl Editor {
    pub(in crate::traffic) const fn new(
        client: FaultClient,
        lmstfy: FaultClient,
        random: StdRng,
    ) -> Self {
        Self {
            client,
            lmstfy,
            random,
        }
    }

    /// Sends requests until publishing ends. Starts no consumers.
    pub(in crate::traffic) async fn run(mut self) -> Vec<JoinHandle<()>> {
        while !self.client.shared.is_publishing_over() {
            match self.random.random_range(0..100) {
                0..4 => {
                    let queue = self.random.random_range(NATIVE_QUEUES);
                    let limit = RESPAWN_MAX;
                    self.lmstfy
                        .send(ClientRequest::Respawn { queue, limit })
                        .await;
                }
                _ => self.edit().await,
            }
            let pause = Duration::from_millis(self.random.random_range(0..2 * PAUSE_MS));
            tokio::time::sleep(pause).await;
        }
        Vec::new()
    }

    async fn edit(&mut self) {
        let recent = self.client.shared.recent_native(&mut self.random);
        let Some(RecentJob { queue, id, key }) = recent else {
            return;
        };
        let job = match key {
            Some(key) if self.random.random_bool(0.6) => JobAddress::Key(key),
            _ => JobAddress::Id(id),
        };
        let request = match self.random.random_range(0..100) {
            0..32 => {
                let running = match self.random.random_range(0..100) {
                    0..30 => IfRunning::Refuse,
                    30..75 => IfRunning::Ask,
                    _ => IfRunning::Revoke,
                };
                ClientRequest::Cancel {
                    queue,
                    job,
                    running,
                }
            }
            32..52 => {
                let delay = self.random.random_range(0..DELAY_MAX_MS) * MS;
                let has_run_at = self.random.random_bool(0.4);
                ClientRequest::Change {
                    queue,
                    job,
                    delay: if has_run_at { 0 } else { delay },
                    run_at: has_run_at.then(|| (now() + delay) / MS * MS),
                }
            }
            52..68 => ClientRequest::Promote { queue, job },
            _ => ClientRequest::Show { queue, job },
        };
        self.client.send(request).await;
    }
}
