//! A client with a private queue, to which it publishes jobs of several groups and priorities, and which it empties job
//! by job. It publishes further jobs meanwhile, most of them of high priorities, so that the others wait for many turns.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;

use super::draw;
use super::worker::{LeaseBehavior, NativeWorker};
use crate::history::{Delivery, SettleAction, VersionSpec};
use crate::traffic::client::FaultClient;
use crate::traffic::shared::TURNS_QUEUE;

const BURST: std::ops::RangeInclusive<usize> = 12..=40;
/// Further jobs that are published while a burst is consumed.
const MORE_MAX: usize = 50;
const LEASE: u64 = 3_000_000;
const WAIT: Duration = Duration::from_secs(1);
const REPEATS: usize = 3;
/// The mean pause between two bursts.
const PAUSE_MS: u64 = 500;

pub(in crate::traffic) struct TurnClient {
    client: FaultClient,
    random: StdRng,
    api_key: String,
}

impl TurnClient {
    pub(in crate::traffic) fn new(client: FaultClient, random: StdRng, api_key: &str) -> Self {
        let api_key = api_key.to_owned();
        Self {
            client,
            random,
            api_key,
        }
    }

    /// Runs until publishing ends. The returned worker reserves the remaining jobs.
    pub(in crate::traffic) async fn run(mut self) -> Vec<JoinHandle<()>> {
        while !self.client.shared.is_publishing_over() {
            let count = self.random.random_range(BURST);
            self.publish(count).await;
            self.empty().await;
            let pause = Duration::from_millis(self.random.random_range(0..2 * PAUSE_MS));
            tokio::time::sleep(pause).await;
        }
        let client = self.client.new_sibling().with_api_key(&self.api_key);
        let queues = vec![TURNS_QUEUE];
        let rest = NativeWorker::of_queues(client, self.random, LeaseBehavior::Long, queues);
        vec![tokio::spawn(rest.run())]
    }

    /// Half of the bursts have one priority, so that its groups have several jobs each.
    async fn publish(&mut self, count: usize) {
        let (random, shared) = (&mut self.random, &self.client.shared);
        let one = draw::ready_version_of_group(random, shared).priority;
        let is_of_one = random.random_bool(0.5);
        let versions = (0..count).map(|_| {
            let drawn = draw::ready_version_of_group(random, shared);
            let priority = if is_of_one { one } else { drawn.priority };
            VersionSpec { priority, ..drawn }
        });
        let versions: Vec<VersionSpec> = versions.collect();
        self.client.publish(TURNS_QUEUE, versions).await;
    }

    /// Reserves jobs until there are none, or publishing ends.
    async fn empty(&mut self) {
        let mut more = self.random.random_range(0..=MORE_MAX);
        while !self.client.shared.is_publishing_over() {
            let queues = [TURNS_QUEUE];
            let reserving = self.client.reserve(&queues, Some(LEASE), 1, WAIT, None);
            let Some(job) = reserving.await.pop() else {
                return;
            };
            self.settle(job).await;
            if more > 0 && self.random.random_bool(0.6) {
                more -= 1;
                let (random, shared) = (&mut self.random, &self.client.shared);
                let urgent = draw::urgent_version_of_group(random, shared);
                self.client.publish(TURNS_QUEUE, vec![urgent]).await;
            }
        }
    }

    /// Acknowledges most jobs, gives some back and fails some.
    async fn settle(&mut self, job: Delivery) {
        let Some(held) = job.held() else {
            return;
        };
        let action = match self.random.random_range(0..100) {
            0..8 => SettleAction::Release(0),
            8..12 => SettleAction::Fail,
            _ => SettleAction::Ack,
        };
        self.client.settle(action, vec![held], REPEATS).await;
    }
}
