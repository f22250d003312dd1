//! The pump of one pool.

use std::sync::Arc;
use std::time::Duration;

use tidegate_daemon::traces::Traces;
use tidegate_store::Store;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::clock_watch;
use crate::cold;
use crate::config::PumpConfig;
use crate::instance::Instance;
use crate::kept_dead;
use crate::lease_keeper::LeaseKeeper;
use crate::leases::BucketLeases;
use crate::readiness::PumpReadiness;
use crate::scheduler::Scheduler;
use crate::size_metrics::SizesPage;

/// Time limit of stopping. If Redis does not reply, each call would wait for its own timeout. It is shorter than
/// `TimeoutStopSec` in `deploy/systemd/tidegate-pumpd.service`.
const STOP_MAX: Duration = Duration::from_secs(10);

/// Pumps one pool until `stop`. Then it waits for running calls and releases its buckets, for up to [`STOP_MAX`]. Other
/// pumps take buckets that were not released when the membership expires.
///
/// The name of the instance is the token of its locks. Two pumps with the same name do the same work twice. This is a
/// waste, but harms no job.
pub(crate) async fn run(
    name: &str,
    store: Store,
    config: PumpConfig,
    membership: PumpReadiness,
    traces: Option<Traces>,
    sizes: SizesPage,
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
        "pump started"
    );
    let alarms = store.alarms();
    let instance = Arc::new(Instance::new(
        name, store, token, config, membership, traces,
    ));
    #[expect(
        clippy::disallowed_methods,
        reason = "bounded by the number of buckets"
    )]
    let (changes, changed) = mpsc::unbounded_channel();
    let leases = Arc::new(BucketLeases::new(changes, instance.measures.held()));
    sizes.add(name, instance.store.clone(), Arc::clone(&leases));
    let cold = cold::run(name, Arc::clone(&instance), Arc::clone(&leases));
    let lease_keeper = LeaseKeeper::new(Arc::clone(&instance), leases, stop.clone());
    let scheduler = Scheduler::new(Arc::clone(&instance));
    let pumping = async {
        tokio::join!(
            lease_keeper.run(),
            scheduler.run(changed, alarms, stop.clone())
        )
    };
    let watching = clock_watch::watch(Arc::clone(&instance));
    let deleting = kept_dead::delete_old(name, instance);
    let limit = async {
        stop.cancelled().await;
        sleep(STOP_MAX).await;
    };
    tokio::select! {
        _ = pumping => {}
        never = watching => match never {},
        never = deleting => match never {},
        never = cold => match never {},
        () = limit => tracing::warn!(
            pool = name,
            "timed out releasing buckets during the stop: other pumps take them when the membership expires"
        ),
    }
}
