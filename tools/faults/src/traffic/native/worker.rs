//! A worker of the native API. It settles its jobs in every way: some never, some late, some twice.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use super::draw::is_doomed;
use crate::history::{Delivery, HeldJob, SettleAction, UnixMicros, now};
use crate::traffic::client::FaultClient;
use crate::traffic::shared::{MIXED_QUEUES, NATIVE_QUEUES};

const MS: u64 = 1000;
/// The lease while queues are drained, in µs.
const CAREFUL_LEASE: u64 = 3_000_000;
const CAREFUL_REPEATS: usize = 6;
const REPEATS: usize = 2;
const BRIEF_WAIT_MS: std::ops::Range<u64> = 5..40;
const WORK_MS: std::ops::Range<u64> = 5..150;

/// The length of the leases that a worker requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::traffic) enum LeaseBehavior {
    /// 100 to 500 ms.
    Short,
    /// 1 to 3 s.
    Long,
    /// The default of each job. It reserves only from queues where each job has one.
    OfJobs,
    /// 0.3 to 3 s. It works on its jobs for a part of a second before it settles them.
    Working,
}

pub(in crate::traffic) struct NativeWorker {
    client: FaultClient,
    random: StdRng,
    behavior: LeaseBehavior,
    queues: Vec<u16>,
}

impl NativeWorker {
    pub(in crate::traffic) fn new(
        client: FaultClient,
        mut random: StdRng,
        behavior: LeaseBehavior,
    ) -> Self {
        let is_used =
            |queue: &u16| behavior != LeaseBehavior::OfJobs || !MIXED_QUEUES.contains(queue);
        let mut queues: Vec<u16> = NATIVE_QUEUES.filter(is_used).collect();
        let turn = random.random_range(0..queues.len());
        queues.rotate_left(turn);
        Self::of_queues(client, random, behavior, queues)
    }

    /// Creates a worker that reserves from these queues.
    pub(in crate::traffic) const fn of_queues(
        client: FaultClient,
        random: StdRng,
        behavior: LeaseBehavior,
        queues: Vec<u16>,
    ) -> Self {
        Self {
            client,
            random,
            behavior,
            queues,
        }
    }

    /// Runs until the end of the run.
    pub(in crate::traffic) async fn run(mut self) {
        while !self.client.shared.is_over() {
            let is_careful = self.client.shared.is_careful();
            let lease = match self.behavior {
                _ if is_careful => Some(CAREFUL_LEASE),
                LeaseBehavior::Short => Some(self.random.random_range(100..500) * MS),
                LeaseBehavior::Long => Some(self.random.random_range(1000..3000) * MS),
                LeaseBehavior::OfJobs => None,
                LeaseBehavior::Working => Some(self.random.random_range(300..3000) * MS),
            };
            let max_jobs = match self.random.random_bool(0.5) {
                true => 1,
                false => self.random.random_range(2..=6),
            };
            let is_brief = self.behavior == LeaseBehavior::Working && self.random.random_bool(0.5);
            let wait = Duration::from_millis(match is_careful {
                true => 1000,
                // A request that has waited for long shows little of a rate.
                false if is_brief => self.random.random_range(BRIEF_WAIT_MS),
                false => self.random.random_range(500..2000),
            });
            let hangs_up = !is_careful && self.random.random_bool(0.03);
            let hang_up = hangs_up.then(|| Duration::from_millis(self.random.random_range(1..800)));
            let reserving = self
                .client
                .reserve(&self.queues, lease, max_jobs, wait, hang_up);
            let jobs = reserving.await;
            if self.behavior == LeaseBehavior::Working && !jobs.is_empty() {
                let work = Duration::from_millis(self.random.random_range(WORK_MS));
                tokio::time::sleep(work).await;
            }
            self.process(jobs).await;
        }
    }

    /// Acknowledges most jobs together, and settles each of the others alone.
    async fn process(&mut self, jobs: Vec<Delivery>) {
        let is_careful = self.client.shared.is_careful();
        let (mut done, mut others) = (Vec::new(), Vec::new());
        for job in jobs {
            let lease_until = job.lease_until;
            let Some(held) = job.held() else {
                continue;
            };
            let draw = self.random.random_range(0..100);
            match draw {
                _ if is_careful => done.push(held),
                // It would hold up its group for as long.
                _ if is_doomed(held.number) && self.behavior != LeaseBehavior::Working => {}
                // Never settled, as after a crash.
                0..8 => {}
                8..45 => others.push((held, draw, lease_until)),
                _ => done.push(held),
            }
        }
        let repeats = if is_careful { CAREFUL_REPEATS } else { REPEATS };
        self.client.settle(SettleAction::Ack, done, repeats).await;
        for (held, draw, lease_until) in others {
            self.settle(held, draw, lease_until).await;
        }
    }

    async fn settle(&mut self, held: HeldJob, draw: u32, lease_until: UnixMicros) {
        let delay = self.random.random_range(0..800) * MS;
        match draw {
            // Settled after the lease has expired.
            8..11 => {
                let left = lease_until.saturating_sub(now());
                let over = self.random.random_range(0..400) * MS;
                tokio::time::sleep(Duration::from_micros(left + over)).await;
                let action =
                    [SettleAction::Ack, SettleAction::Fail][self.random.random_range(0..2)];
                self.client.settle(action, vec![held], REPEATS).await;
            }
            // Twice.
            11..15 => {
                for _ in 0..2 {
                    let held = vec![held.clone()];
                    self.client.settle(SettleAction::Ack, held, REPEATS).await;
                }
            }
            15..23 => {
                let lease = self.random.random_range(100..2000) * MS;
                let touch = SettleAction::Touch(lease);
                self.client.settle(touch, vec![held.clone()], 0).await;
                tokio::time::sleep(Duration::from_micros(delay / 8)).await;
                if self.random.random_bool(0.7) {
                    self.client
                        .settle(SettleAction::Ack, vec![held], REPEATS)
                        .await;
                }
            }
            23..36 => {
                let action = match self.random.random_range(0..10) {
                    0..6 => SettleAction::Fail,
                    6..9 => SettleAction::FailRetryIn(delay),
                    _ => SettleAction::FailDead,
                };
                self.client.settle(action, vec![held], REPEATS).await;
            }
            _ => {
                let delay = if self.random.random_bool(0.5) {
                    0
                } else {
                    delay
                };
                let action = SettleAction::Release(delay);
                self.client.settle(action, vec![held], REPEATS).await;
            }
        }
    }
}
