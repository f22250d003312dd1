//! A producer of the native API. It repeats requests with an idempotency key until they are answered, and some of them
//! although they were answered.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;

use super::draw;
use crate::history::{ClientRequest, PublishMode, RequestOutcome, VersionResult, VersionSpec};
use crate::traffic::client::FaultClient;
use crate::traffic::shared::{ClientState, NATIVE_QUEUES, RecentJob};

/// The mean pause between two requests.
const PAUSE_MS: u64 = 150;
const REPEATS_MAX: usize = 4;
const BATCH_MAX: usize = 6;

pub(in crate::traffic) struct NativeProducer {
    client: FaultClient,
    random: StdRng,
}

impl NativeProducer {
    pub(in crate::traffic) const fn new(client: FaultClient, random: StdRng) -> Self {
        Self { client, random }
    }

    /// Publishes until publishing ends. Starts no consumers.
    pub(in crate::traffic) async fn run(mut self) -> Vec<JoinHandle<()>> {
        while !self.shared().is_publishing_over() {
            let queue = self.random.random_range(NATIVE_QUEUES);
            let mode = match self.random.random_range(0..100) {
                0..8 => PublishMode::Batch,
                8..16 => PublishMode::Atomic,
                _ => PublishMode::Single,
            };
            let versions = self.draw(mode);
            self.publish(queue, mode, versions).await;
            let pause = Duration::from_millis(self.random.random_range(0..2 * PAUSE_MS));
            tokio::time::sleep(pause).await;
        }
        Vec::new()
    }

    fn shared(&self) -> &ClientState {
        &self.client.shared
    }

    fn draw(&mut self, mode: PublishMode) -> Vec<VersionSpec> {
        let count = match mode {
            PublishMode::Single => 1,
            _ => self.random.random_range(2..=BATCH_MAX),
        };
        let is_repeatable = self.random.random_bool(0.35);
        let wait = match mode {
            PublishMode::Single => draw::wait(&mut self.random),
            _ => 0,
        };
        let shared = &self.client.shared;
        let versions = (0..count).map(|_| {
            let version = draw::version(&mut self.random, shared);
            VersionSpec {
                idempotency_key: is_repeatable.then_some(version.number),
                wait,
                ..version
            }
        });
        versions.collect()
    }

    async fn publish(&mut self, queue: u16, mode: PublishMode, versions: Vec<VersionSpec>) {
        let may_repeat = versions
            .iter()
            .all(|version| version.idempotency_key.is_some());
        for _ in 0..=REPEATS_MAX {
            let request = ClientRequest::Publish {
                queue,
                mode,
                versions: versions.clone(),
                replaced: None,
            };
            let outcome = self.client.send(request).await;
            let is_ended = matches!(outcome, RequestOutcome::Ended { .. });
            if let RequestOutcome::Published(results) = outcome {
                self.remember(queue, &versions, &results);
                if !may_repeat || self.random.random_bool(0.7) {
                    return;
                }
                let pause = Duration::from_millis(self.random.random_range(0..600));
                tokio::time::sleep(pause).await;
            } else if !may_repeat || is_ended {
                return;
            }
        }
    }

    fn remember(&self, queue: u16, versions: &[VersionSpec], results: &[VersionResult]) {
        for (version, result) in versions.iter().zip(results) {
            if let Some(id) = result.id() {
                self.shared().add_recent(RecentJob {
                    queue,
                    id: id.to_owned(),
                    key: version.key,
                });
            }
        }
    }
}
