//! The cold tier of one pool: payloads go to the object store and come back (`docs/cold-tier.md`).
//!
//! | task | does | for |
//! |---|---|---|
//! | [`freezer`] | writes segments, and puts references into records | the buckets that this instance leads |
//! | [`thawer`] | puts payloads back before they are due | the same |
//! | [`collector`] | deletes segments to which no job refers | the deployment, by the pump that leads bucket 0 |

mod cold_metrics;
mod collector;
mod freezer;
mod thawer;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tidegate_cold::{ColdError, ColdObjects};
use tidegate_store::StoreError;
use tokio::time::{Instant, sleep};

use crate::cold::cold_metrics::ColdMetrics;
use crate::instance::Instance;
use crate::leases::BucketLeases;

/// Pause after a pass that failed.
const FAILURE_PAUSE: Duration = Duration::from_secs(10);

/// What the three tasks share.
#[derive(Debug)]
struct ColdInstance {
    pool: String,
    instance: Arc<Instance>,
    leases: Arc<BucketLeases>,
    objects: ColdObjects,
    metrics: ColdMetrics,
}

impl ColdInstance {
    /// Makes a call to Redis, and then waits for so many times as long as it took: Redis serves others meanwhile, also
    /// while millions of payloads move.
    async fn paced<T>(&self, pauses: u32, call: impl Future<Output = T>) -> T {
        let begin = Instant::now();
        // In a box: the future of a pump has all three tasks in it.
        let outcome = Box::pin(call).await;
        sleep(begin.elapsed() * pauses).await;
        outcome
    }
}

/// Why a pass has ended early.
#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error(transparent)]
    Redis(#[from] StoreError),
    #[error(transparent)]
    Objects(#[from] ColdError),
}

/// Runs the cold tier of a pool. Never returns.
pub(crate) async fn run(
    pool: &str,
    instance: Arc<Instance>,
    leases: Arc<BucketLeases>,
) -> Infallible {
    let Some(objects) = instance.store.cold_objects().cloned() else {
        return std::future::pending().await;
    };
    let tier = ColdInstance {
        pool: pool.to_owned(),
        metrics: ColdMetrics::new(pool),
        instance,
        leases,
        objects,
    };
    tokio::select! {
        never = freezer::run(&tier) => never,
        never = thawer::run(&tier) => never,
        never = collector::run(&tier) => never,
    }
}
