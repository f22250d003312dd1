//! The limit `publishes_per_second` of a namespace: units of a rate, one for each job, taken before a publish.

use std::time::Duration;

use tidegate_core::{Namespace, Rate};
use tidegate_store::RateOwner;

use crate::error::EngineError;
use crate::metrics::storage_failure::record_store_error;
use crate::pool::Pool;
use crate::queue::policies::QueueRate;
use crate::units::RateUnits;

/// The time of the rate.
const PER: Duration = Duration::from_secs(1);

impl Pool {
    /// Takes units for up to `wanted` jobs, but `least` or none.
    ///
    /// # Errors
    /// The namespace has published as much as it may, or the store failed. Nothing was published.
    pub(crate) async fn take_publish_units(
        &self,
        namespace: &Namespace,
        per_second: u64,
        (least, wanted): (u64, u64),
    ) -> Result<RateUnits, EngineError> {
        let refused = |wait: Option<Duration>| EngineError::PublishesLimited {
            max: per_second,
            retry_ms: wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        };
        if least > per_second {
            return Err(refused(None));
        }
        if let Some(left) = self.publish_holds.left(namespace) {
            return Err(refused(Some(left)));
        }
        let rate = QueueRate {
            owner: RateOwner::Publishes(namespace.clone()),
            rate: Rate {
                jobs: per_second,
                per_ms: PER.as_millis() as u64,
            },
        };
        let store = self.store_of_new_jobs();
        let taken = RateUnits::take(store, vec![rate], wanted).await;
        let units = taken.map_err(|error| {
            record_store_error(&error);
            EngineError::of_failed_check(&error)
        })?;
        if units.count >= least {
            return Ok(units);
        }
        units.give_back(store, 0).await;
        let next = units.next.unwrap_or_default();
        if units.count == 0 {
            self.publish_holds.set(namespace, next);
        }
        let missing = u32::try_from(least - units.count).unwrap_or(u32::MAX);
        let others =
            PER.saturating_mul(missing - 1) / u32::try_from(per_second).unwrap_or(u32::MAX);
        Err(refused(Some(next + others)))
    }
}
