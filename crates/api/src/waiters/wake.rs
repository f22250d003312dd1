//! What wakes lines: doorbells, lanes that come, and the clock in case a message was lost.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tidegate_store::Doorbell;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{Inner, Source};
use crate::lanes::LaneTable;
use crate::pool::Deployment;

/// Lines are looked through this many times in each poll interval.
const LOOKS_PER_INTERVAL: u32 = 8;

impl Inner {
    /// The time to the next look at a line that was served just now. Lines that were filled at the same
    /// moment are spread out. Together with the time between two looks it is below the interval.
    pub(super) fn poll_pause(&self) -> Duration {
        self.poll_interval
            .mul_f64(0.6 + 0.25 * rand::random::<f64>())
    }

    /// Rings lines when Redis says so, until the runtime shuts down.
    async fn listen(self: &Arc<Self>, pool: &Arc<str>, deployment: &Deployment) {
        let Deployment { store, lanes, .. } = deployment;
        let mut doorbells = store.doorbells();
        while let Some(doorbell) = doorbells.next().await {
            match doorbell {
                Doorbell::Rang { queue, bucket } => {
                    let used = lanes.used(&queue);
                    let lane = store.lane_in(bucket, &queue, used);
                    if lane.is_none() {
                        // A lane that was opened since the last look.
                        lanes.look();
                    }
                    let pool = Arc::clone(pool);
                    self.ring(&Source { pool, queue }, lane);
                }
                Doorbell::Resubscribed => {
                    tracing::debug!(%pool, "listening for doorbells");
                    self.ring_where(|source, line| source.pool == *pool && line.ring(None));
                }
            }
        }
    }

    /// Rings those lines whose time has come, for ever.
    async fn look_in_turn(self: &Arc<Self>) {
        let mut looks = interval(self.poll_interval / LOOKS_PER_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let now = Instant::now();
            self.ring_where(|_, line| {
                let is_due = line.poll_at.is_none_or(|at| at <= now);
                line.is_parked() && is_due && line.poll()
            });
        }
    }

    /// Rings the lines of queues with several lanes when these are others than before, for ever.
    async fn follow_lanes(self: &Arc<Self>, pool: &Arc<str>, lanes: &LaneTable) {
        let ringing = async {
            loop {
                lanes.changed().await;
                for queue in lanes.queues() {
                    let pool = Arc::clone(pool);
                    self.ring(&Source { pool, queue }, None);
                }
            }
        };
        tokio::join!(ringing, lanes.follow());
    }

    /// Has lines served where `ring` says that a serve loop has to be started.
    fn ring_where(self: &Arc<Self>, ring: impl Fn(&Source, &mut super::Line) -> bool) {
        let mut lines = self.lock();
        let all = lines.by_source.iter_mut();
        let started: Vec<Source> = all
            .filter_map(|(source, line)| ring(source, line).then(|| source.clone()))
            .collect();
        drop(lines);
        for source in started {
            self.spawn_serving(source);
        }
    }
}

/// Rings lines until `stop`: one subscription and one task for retries a pool, and one timer, however many
/// lines there are.
pub(super) async fn wake(inner: &Arc<Inner>, stop: CancellationToken) {
    let pools = || inner.pools.iter();
    let listening = pools().map(|(name, pool)| inner.listen(name, &pool.deployment));
    let following = pools().map(|(name, pool)| inner.follow_lanes(name, &pool.deployment.lanes));
    let retrying = pools().map(|(name, pool)| inner.retry(name, pool));
    tokio::select! {
        () = stop.cancelled() => {}
        _ = join_all(retrying) => {}
        _ = join_all(listening) => {}
        _ = join_all(following) => {}
        () = inner.look_in_turn() => {}
    }
}
