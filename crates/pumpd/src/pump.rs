//! A pump from its start to its end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_store::Store;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::PumpConfig;
use crate::conductor::Conductor;
use crate::keeper::Keeper;
use crate::measures::Measures;
use crate::membership::Membership;
use crate::server_watch;

/// How long a pump may take to stop. Redis may not answer, and each call would then wait for its own timeout.
/// Shorter than `TimeoutStopSec` in `deploy/systemd/tidegate-pumpd.service`.
const STOP_MAX: Duration = Duration::from_secs(10);

/// What is pumped, by whom, and how.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) store: Store,
    /// Name of this instance and token of its leases.
    pub(crate) token: String,
    pub(crate) config: PumpConfig,
    pub(crate) measures: Measures,
    pub(crate) membership: Membership,
    /// Changes when the leases must be checked again.
    pub(crate) look_again: watch::Sender<()>,
    /// Changes when a roster has changed, or may have.
    pub(crate) roster_changed: watch::Sender<()>,
    /// Notified when the clock of a server was set forward: timers may be due earlier than planned.
    pub(crate) clock_jumped: Notify,
    /// Buckets that we believed to lead and that Redis said we do not.
    doubted: Mutex<BTreeSet<u16>>,
}

impl Pool {
    /// Has the lease of a bucket looked at again, soon.
    pub(crate) fn doubt(&self, bucket: u16) {
        let mut doubted = self.doubted.lock().unwrap_or_else(PoisonError::into_inner);
        doubted.insert(bucket);
        self.look_again.send_replace(());
    }

    /// Which of these buckets are to be looked at again; from now on none of them is.
    pub(crate) fn take_doubted(&self, buckets: &[u16]) -> BTreeSet<u16> {
        let mut doubted = self.doubted.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = buckets.iter().copied();
        taken.filter(|bucket| doubted.remove(bucket)).collect()
    }
}

/// Pumps one pool until `stop`, then finishes what is running and hands its buckets back, for at most
/// [`STOP_MAX`]. Buckets that were not handed back are free when the membership expires.
///
/// The instance's name is the token of its leases. Two pumps of the same name do the same work twice,
/// which is a waste, and harms no job.
pub(crate) async fn run(
    name: &str,
    store: Store,
    config: PumpConfig,
    membership: Membership,
    stop: CancellationToken,
) {
    let token = match config.instance.as_str() {
        "" => Ulid::generate().to_string(),
        instance => instance.to_owned(),
    };
    tracing::info!(
        pool = name,
        instance = token,
        buckets = store.buckets(),
        "pumping"
    );
    let alarms = store.alarms();
    let pool = Arc::new(Pool {
        store,
        token,
        config,
        measures: Measures::new(name),
        membership,
        look_again: watch::Sender::new(()),
        roster_changed: watch::Sender::new(()),
        clock_jumped: Notify::new(),
        doubted: Mutex::default(),
    });
    let (changes, changed) = mpsc::unbounded_channel();
    let keeper = Keeper::new(Arc::clone(&pool), changes, stop.clone());
    let conductor = Conductor::new(Arc::clone(&pool));
    let pumping =
        async { tokio::join!(keeper.run(), conductor.run(changed, alarms, stop.clone())) };
    let watching = server_watch::watch(pool);
    let limit = async {
        stop.cancelled().await;
        sleep(STOP_MAX).await;
    };
    tokio::select! {
        _ = pumping => {}
        never = watching => match never {},
        () = limit => tracing::warn!(
            pool = name,
            "timed out handing buckets back: other pumps take them when the membership expires"
        ),
    }
}
