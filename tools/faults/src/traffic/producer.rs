//! A client of the lmstfy wire that publishes jobs, and cancels or replaces some of them.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tidegate_core::IfRunning;
use tokio::task::JoinHandle;

use super::client::{FaultClient, by_id};
use super::draw;
use super::shared::RecentJob;
use crate::history::{ClientRequest, PublishMode, RequestOutcome, VersionSpec};

/// How often a client publishes the same again, as another job, if it got no clear answer.
const RETRIES: usize = 3;

/// The jobs that a producer publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProducerBehavior {
    /// Any jobs. It cancels and replaces some.
    Any,
    /// Jobs that do not expire, to queues of native clients.
    Crossing,
    /// Many delayed jobs for one queue, whose bucket is large: an audit reads one of more than 16 chunks in parts,
    /// while its jobs change.
    Ballast,
}

impl ProducerBehavior {
    /// The mean pause between two requests.
    const fn pause_ms(self) -> u64 {
        match self {
            Self::Any => 120,
            Self::Crossing => 300,
            Self::Ballast => 1000,
        }
    }
}

pub(super) struct Producer {
    client: FaultClient,
    random: StdRng,
    behavior: ProducerBehavior,
    queues: Vec<u16>,
}

impl Producer {
    pub(super) const fn new(
        client: FaultClient,
        random: StdRng,
        behavior: ProducerBehavior,
        queues: Vec<u16>,
    ) -> Self {
        Self {
            client,
            random,
            behavior,
            queues,
        }
    }

    /// Publishes until publishing ends. Starts no consumers.
    pub(super) async fn run(mut self) -> Vec<JoinHandle<()>> {
        while !self.client.shared.is_publishing_over() {
            let queue = self.queues[self.random.random_range(0..self.queues.len())];
            let (random, shared) = (&mut self.random, &self.client.shared);
            let versions = match self.behavior {
                ProducerBehavior::Any => draw::versions(random, shared),
                ProducerBehavior::Crossing => vec![draw::crossing(random, shared)],
                ProducerBehavior::Ballast => draw::ballast(random, shared),
            };
            self.publish(queue, versions).await;
            let pause_ms = self.random.random_range(0..2 * self.behavior.pause_ms());
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
        Vec::new()
    }

    async fn publish(&mut self, queue: u16, mut versions: Vec<VersionSpec>) {
        for _ in 0..=RETRIES {
            match self.client.publish(queue, versions.clone()).await {
                RequestOutcome::Published(results) if self.behavior == ProducerBehavior::Any => {
                    let ids = results.iter().filter_map(|result| result.id());
                    for id in ids {
                        self.follow_up(queue, id).await;
                    }
                    return;
                }
                outcome if outcome.is_unknown() && !self.client.shared.is_publishing_over() => {
                    for version in &mut versions {
                        version.number = self.client.shared.next_number();
                    }
                }
                _ => return,
            }
        }
    }

    async fn follow_up(&mut self, queue: u16, id: &str) {
        let request = match self.random.random_range(0..100) {
            0..5 => ClientRequest::Cancel {
                queue,
                job: by_id(id),
                running: IfRunning::Revoke,
            },
            5..9 => ClientRequest::Publish {
                queue,
                mode: PublishMode::Single,
                versions: vec![draw::version(&mut self.random, &self.client.shared)],
                replaced: Some(id.to_owned()),
            },
            _ => {
                let id = id.to_owned();
                let recent = RecentJob {
                    queue,
                    id,
                    key: None,
                };
                return self.client.shared.add_recent(recent);
            }
        };
        self.client.send(request).await;
    }
}
