//! The units of rates that a round takes before it reserves jobs, and a publish before it stores them.

use std::time::Duration;

use tidegate_store::{Store, StoreError, TakenUnits};

use crate::metrics::storage_failure::record_store_error;
use crate::queue::policies::QueueRate;

/// The units of one round or publish. Those that it does not use are to be given back.
#[derive(Debug)]
pub(crate) struct RateUnits {
    taken: Vec<(QueueRate, TakenUnits)>,
    /// For how many jobs there are units.
    pub(crate) count: u64,
    /// When there is a further unit, if there were fewer than wanted.
    pub(crate) next: Option<Duration>,
}

impl RateUnits {
    /// Takes units for up to `wanted` jobs from each of these rates.
    ///
    /// # Errors
    /// The store failed. No unit is kept.
    pub(crate) async fn take(
        store: &Store,
        rates: Vec<QueueRate>,
        wanted: u64,
    ) -> Result<Self, StoreError> {
        let mut units = Self {
            taken: Vec::with_capacity(rates.len()),
            count: wanted,
            next: None,
        };
        for rate in rates {
            match store.take_units(&rate.owner, rate.rate, units.count).await {
                Ok(taken) => {
                    if taken.units < units.count {
                        units.next = units.next.max(Some(taken.wait()));
                    }
                    units.count = taken.units;
                    units.taken.push((rate, taken));
                }
                Err(error) => {
                    units.give_back(store, 0).await;
                    return Err(error);
                }
            }
            if units.count == 0 {
                break;
            }
        }
        Ok(units)
    }

    /// Gives back what was not used for jobs. A unit that cannot be given back comes back by itself.
    pub(crate) async fn give_back(&self, store: &Store, used: u64) {
        for (QueueRate { owner, rate }, taken) in &self.taken {
            let unused = taken.units.saturating_sub(used);
            if unused > 0
                && let Err(error) = store.give_units_back(owner, *rate, taken, unused).await
            {
                record_store_error(&error);
            }
        }
    }
}
