//! Publishes that wait until their jobs have the requested durability.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use prometheus::{HistogramVec, IntCounterVec, exponential_buckets};
use tidegate_core::Durability;
use tidegate_daemon::metrics::{counters, histograms};
use tidegate_store::{DurabilityError, Receipt, Store};

static PUBLISHES: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_durable_publishes_total",
        "Number of publishes that waited for more than memory, by outcome: reached or missed.",
        &["pool", "durability", "outcome"],
    )
});
static WAIT: LazyLock<HistogramVec> = LazyLock::new(|| {
    // In seconds: 0.1 ms to 3.3 s.
    let bounds = exponential_buckets(0.0001, 2.0, 16).expect("valid buckets");
    histograms(
        "tidegate_durability_wait_seconds",
        "Time from storing the jobs of a publish to reaching the requested durability, or giving up, in seconds.",
        &["pool", "durability"],
        &bounds,
    )
});

/// The durability that a publish waits for.
#[derive(Debug, Clone, Copy)]
pub struct DurabilityTarget {
    /// The durability to wait for.
    pub durability: Durability,
    /// The longest wait, from the moment the jobs are stored.
    pub timeout: Duration,
}

impl DurabilityTarget {
    /// Prepares the store for a wait. Must be called before the jobs are stored.
    pub(crate) fn prepare(self, store: &Store) {
        if !self.durability.is_memory() {
            store.expect_durable();
        }
    }

    /// Waits until the stored jobs have the durability, for at most `timeout` and some tenths of a second. Returns at
    /// once for `memory`.
    ///
    /// # Errors
    /// The durability was not confirmed in time. The jobs are stored, unless their server has lost them.
    pub(crate) async fn wait_until_durable(
        self,
        store: &Store,
        receipt: Receipt,
        pool: &Arc<str>,
    ) -> Result<Durability, DurabilityError> {
        if self.durability.is_memory() {
            return Ok(self.durability);
        }
        let began_at = Instant::now();
        // Boxed: most publishes do not wait, and their futures are smaller without it.
        let waiting = store.until_durable(receipt, self.durability, self.timeout);
        let waited = Box::pin(waiting).await;
        let outcome = match &waited {
            Ok(()) => "reached",
            Err(_) => "missed",
        };
        let durability = self.durability.to_string();
        let wait = WAIT.with_label_values(&[&**pool, &durability]);
        wait.observe(began_at.elapsed().as_secs_f64());
        let publishes = PUBLISHES.with_label_values(&[&**pool, &durability, outcome]);
        publishes.inc();
        waited.map(|()| self.durability)
    }
}
