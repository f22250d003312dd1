//! Queues whose jobs wait although consumers ask for them.

use serde::{Deserialize, Serialize};

/// A queue with one lane whose ready jobs wait on purpose: for a lease of their group to end, for a unit of a rate, or
/// for the only client that asks for them. None of its jobs is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldQueue {
    pub queue: u16,
    /// Jobs of a group that may be leased at a time.
    pub group_max_running: Option<u64>,
    /// The largest rate of deliveries.
    pub rate: Option<DeliveryRate>,
}

/// So many deliveries at once, and as many more in each such time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryRate {
    pub jobs: u64,
    /// The time in which an empty bucket fills, in µs.
    pub per: u64,
}

impl DeliveryRate {
    /// Returns the largest number of deliveries in this time, in µs.
    #[must_use]
    pub fn largest_number_in(&self, time: u64) -> u64 {
        let filled = u128::from(time) * u128::from(self.jobs) / u128::from(self.per);
        self.jobs
            .saturating_add(u64::try_from(filled).unwrap_or(u64::MAX))
    }
}
