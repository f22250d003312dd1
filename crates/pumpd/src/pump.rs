//! A pump from its start to its end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_store::Store;
use tokio::sync::{Notify, mpsc};
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
    /// Notified when the leases must be checked again.
    pub(crate) look_again: Notify,
    /// Notified when the roster has changed, or may have.
    pub(crate) roster_changed: Notify,
    /// Notified when the clock of a server was set forward: timers may be due earlier than planned.
    pub(crate) clock_jumped: Notify,
    /// Buckets that we believed to lead and that Redis said we do not.
    doubted: Mutex<BTreeSet<u16>>,
    /// Servers that have not answered for longer than the lease.
    cut_off: Mutex<Vec<Arc<str>>>,
}

impl Pool {
    /// Has the lease of a bucket looked at again, soon.
    pub(crate) fn doubt(&self, bucket: u16) {
        self.doubted().insert(bucket);
        self.look_again.notify_one();
    }

    /// What is to be looked at again; from now on that is nothing.
    pub(crate) fn take_doubted(&self) -> BTreeSet<u16> {
        std::mem::take(&mut *self.doubted())
    }

    /// Sets which servers have not answered for longer than the lease. A change is published on the roster at once.
    pub(crate) fn set_cut_off(&self, servers: Vec<Arc<str>>) {
        let mut known = self.cut_off.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != servers {
            match servers.is_empty() {
                true => tracing::info!("all servers of Redis answer again"),
                false => tracing::warn!(
                    ?servers,
                    "servers of Redis do not answer this pump: others may lead their buckets, check the way to them"
                ),
            }
            *known = servers;
            self.roster_changed.notify_one();
        }
    }

    /// Servers that have not answered for longer than the lease.
    pub(crate) fn cut_off(&self) -> Vec<Arc<str>> {
        let servers = self.cut_off.lock().unwrap_or_else(PoisonError::into_inner);
        servers.clone()
    }

    fn doubted(&self) -> MutexGuard<'_, BTreeSet<u16>> {
        self.doubted.lock().unwrap_or_else(PoisonError::into_inner)
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
        look_again: Notify::new(),
        roster_changed: Notify::new(),
        clock_jumped: Notify::new(),
        doubted: Mutex::default(),
        cut_off: Mutex::default(),
    });
    let (changes, changed) = mpsc::unbounded_channel();
    let keeper = Keeper::new(Arc::clone(&pool), changes);
    let conductor = Conductor::new(Arc::clone(&pool));
    let pumping = async {
        tokio::join!(
            keeper.run(stop.clone()),
            conductor.run(changed, alarms, stop.clone())
        )
    };
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
