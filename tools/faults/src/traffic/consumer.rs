//! A client that consumes. Sometimes it does not ack, acks after the lease, or hangs up.

use std::ops::RangeInclusive;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use super::client::FaultClient;
use super::shared::{GUEST_QUEUE, LIMITED_QUEUE, QUEUES, ROUGH};
use crate::history::Delivery;

const S: u64 = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConsumerBehavior {
    /// It polls continuously.
    Calm,
    /// It sometimes hangs up.
    Rough,
    /// Its token has a rate limit.
    Limited,
    /// Its token is revoked while it waits in a long poll, and replaced later.
    Guest,
    /// It consumes only from this queue.
    Of(u16),
}

impl ConsumerBehavior {
    fn queues(self) -> Vec<u16> {
        match self {
            Self::Calm => (0..QUEUES).filter(|queue| !ROUGH.contains(queue)).collect(),
            Self::Rough => ROUGH.collect(),
            Self::Limited => vec![LIMITED_QUEUE],
            Self::Guest => vec![GUEST_QUEUE],
            Self::Of(queue) => vec![queue],
        }
    }

    const fn timeouts_s(self) -> RangeInclusive<u64> {
        match self {
            Self::Guest => 4..=8,
            Self::Of(_) => 2..=4,
            _ => 1..=2,
        }
    }
}

pub(super) struct RunConsumer {
    client: FaultClient,
    random: StdRng,
    habit: ConsumerBehavior,
    queues: Vec<u16>,
}

impl RunConsumer {
    pub(super) fn new(client: FaultClient, mut random: StdRng, habit: ConsumerBehavior) -> Self {
        let mut queues = habit.queues();
        let turn = random.random_range(0..queues.len());
        queues.rotate_left(turn);
        Self {
            client,
            random,
            habit,
            queues,
        }
    }

    pub(super) async fn run(mut self) {
        while !self.client.shared.is_over() {
            if self.habit == ConsumerBehavior::Guest {
                let (number, token) = self.client.shared.guest();
                self.client.use_token(number, &token);
            }
            let ttr_s = self.random.random_range(1..=3);
            let count = match self.random.random_bool(0.7) {
                true => 1,
                false => self.random.random_range(2..=4),
            };
            let timeout_s = match self.client.shared.is_careful() {
                true => 1,
                false => self.random.random_range(self.habit.timeouts_s()),
            };
            let timeout = Duration::from_secs(timeout_s);
            let hang_up = self.draw_hang_up();
            let reserving =
                self.client
                    .reserve(&self.queues, Some(ttr_s * S), count, timeout, hang_up);
            for job in reserving.await {
                self.process(job, ttr_s).await;
            }
        }
    }

    fn draw_hang_up(&mut self) -> Option<Duration> {
        let is_hanging_up = self.habit == ConsumerBehavior::Rough
            && !self.client.shared.is_careful()
            && self.random.random_bool(0.25);
        is_hanging_up.then(|| Duration::from_micros(self.random.random_range(200..1_500_000)))
    }

    async fn process(&mut self, job: Delivery, ttr_s: u64) {
        let fate = match self.client.shared.is_careful() {
            true => 99,
            false => self.random.random_range(0..100),
        };
        match fate {
            // Never acked, as after a crash.
            0..12 => {}
            // Acked after the lease has expired.
            12..14 => {
                let over = Duration::from_millis(self.random.random_range(0..800));
                tokio::time::sleep(Duration::from_secs(ttr_s) + over).await;
                self.client.ack(job).await;
            }
            _ => self.client.ack(job).await,
        }
    }
}
