//! What wakes lines: doorbells, and the clock in case one was lost.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::QueueKey;
use tidegate_store::Doorbell;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::Inner;

/// Lines are looked through this many times in each poll interval.
const LOOKS_PER_INTERVAL: u32 = 8;

impl Inner {
    /// The time to the next look at a line that was served just now. Lines that were filled at the same
    /// moment are spread out. Together with the time between two looks it is below the interval.
    pub(super) fn poll_pause(&self) -> Duration {
        self.poll_interval
            .mul_f64(0.6 + 0.25 * rand::random::<f64>())
    }

    fn ring_those_whose_time_has_come(self: &Arc<Self>) {
        let now = Instant::now();
        let due = |line: &super::Line| line.is_parked() && line.poll_at.is_none_or(|at| at <= now);
        self.ring_where(due);
    }

    fn ring_all(self: &Arc<Self>) {
        self.ring_where(|_| true);
    }

    fn ring_where(self: &Arc<Self>, wanted: impl Fn(&super::Line) -> bool) {
        let mut lines = self.lock();
        let chosen = lines.by_queue.iter_mut().filter(|(_, line)| wanted(line));
        let started: Vec<QueueKey> = chosen
            .filter_map(|(queue, line)| line.ring().then(|| queue.clone()))
            .collect();
        drop(lines);
        for queue in started {
            self.spawn_serving(queue);
        }
    }
}

/// Rings lines until told to stop: one subscription and one timer, however many lines there are.
pub(super) async fn wake(inner: &Arc<Inner>, stop: CancellationToken) {
    let mut doorbells = inner.store.doorbells();
    let mut looks = interval(inner.poll_interval / LOOKS_PER_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            doorbell = doorbells.next() => match doorbell {
                Some(Doorbell::Rang(queue)) => inner.ring(&queue),
                Some(Doorbell::Resubscribed) => {
                    tracing::debug!(pool = %inner.pool, "listening for doorbells");
                    inner.ring_all();
                }
                // The runtime shuts down.
                None => return,
            },
            _ = looks.tick() => inner.ring_those_whose_time_has_come(),
        }
    }
}
