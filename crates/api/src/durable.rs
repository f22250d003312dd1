//! Publishes that wait until their jobs are safe.

use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::{counter, describe_counter, describe_histogram, histogram};
use tidegate_core::JobId;
use tidegate_store::{Durability, NotDurable, Receipt, Store};

const PUBLISHES: &str = "tidegate_durable_publishes_total";
const WAIT: &str = "tidegate_durability_wait_seconds";

/// 0.1 ms to 3.3 s.
const WAIT_BOUNDS: [f64; 16] = [
    0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048,
    0.4096, 0.8192, 1.6384, 3.2768,
];

/// The histogram of this file and the upper bounds of its buckets.
pub(crate) const HISTOGRAM: (&str, &[f64]) = (WAIT, &WAIT_BOUNDS);

/// Says once per process what the metrics mean.
pub(crate) fn describe() {
    describe_counter!(
        PUBLISHES,
        "Publishes that waited for more than memory, by whether that was reached"
    );
    describe_histogram!(
        WAIT,
        "How long stored jobs took to become as durable as asked for, or to be given up, in seconds"
    );
}

/// What a publish is to wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aim {
    pub(crate) durability: Durability,
    /// The longest wait, once the jobs are stored.
    pub(crate) timeout: Duration,
}

/// Jobs that were stored.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) ids: Vec<JobId>,
    /// How safe they are.
    pub(crate) durability: Result<Durability, NotDurable>,
}

impl Aim {
    /// To be called before the jobs are stored.
    pub(crate) fn prepare(self, store: &Store) {
        if !self.durability.is_memory() {
            store.expect_durable();
        }
    }

    /// Waits until stored jobs are as safe as they should be.
    pub(crate) async fn reach(
        self,
        store: &Store,
        receipt: Receipt,
        pool: &Arc<str>,
    ) -> Result<Durability, NotDurable> {
        if self.durability.is_memory() {
            return Ok(self.durability);
        }
        let began_at = Instant::now();
        let waiting = store.until_durable(receipt, self.durability, self.timeout);
        let waited = waiting.await;
        let outcome = match &waited {
            Ok(()) => "reached",
            Err(_) => "missed",
        };
        let labels = [
            ("pool", pool.to_string()),
            ("durability", self.durability.to_string()),
        ];
        histogram!(WAIT, &labels).record(began_at.elapsed().as_secs_f64());
        let [pool, durability] = labels;
        counter!(
            PUBLISHES,
            &[pool, durability, ("outcome", outcome.to_owned())]
        )
        .increment(1);
        waited.map(|()| self.durability)
    }
}
