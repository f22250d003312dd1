//! Metrics of relays.

use std::sync::LazyLock;

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use tidegate_daemon::metrics::{counters, gauges, histograms};

/// Upper bounds in seconds, from a broker nearby to the time limit of a webhook.
const DELIVERY_BOUNDS: [f64; 12] = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0,
];

const OUTCOMES: [&str; 4] = ["confirmed", "rejected", "dead", "unavailable"];
const CALLS: [&str; 2] = ["reserve", "settle"];

static JOBS: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_relay_jobs_total",
        "Number of deliveries by outcome: confirmed, rejected, dead, unavailable.",
        &["relay", "outcome"],
    )
});

static HELD: LazyLock<IntGaugeVec> = LazyLock::new(|| {
    gauges(
        "tidegate_relay_held_jobs",
        "Number of jobs that are reserved and not yet settled.",
        &["relay"],
    )
});

static BREAKER: LazyLock<IntGaugeVec> = LazyLock::new(|| {
    gauges(
        "tidegate_relay_breaker_open",
        "Whether the circuit breaker is open, since the sink is unavailable.",
        &["relay"],
    )
});

static DELIVERY: LazyLock<HistogramVec> = LazyLock::new(|| {
    histograms(
        "tidegate_relay_delivery_seconds",
        "Time of one call to the sink, in seconds.",
        &["relay"],
        &DELIVERY_BOUNDS,
    )
});

static SOURCE_ERRORS: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_relay_source_errors_total",
        "Number of calls to the source that failed, by call.",
        &["relay", "call"],
    )
});

#[derive(Debug)]
pub(crate) struct RelayMetrics {
    pub(crate) confirmed: IntCounter,
    pub(crate) rejected: IntCounter,
    pub(crate) dead: IntCounter,
    pub(crate) unavailable: IntCounter,
    pub(crate) held: IntGauge,
    pub(crate) breaker_open: IntGauge,
    pub(crate) delivery: Histogram,
    pub(crate) reserve_errors: IntCounter,
    pub(crate) settle_errors: IntCounter,
}

impl RelayMetrics {
    pub(crate) fn new(relay: &str) -> Self {
        let [confirmed, rejected, dead, unavailable] =
            OUTCOMES.map(|outcome| JOBS.with_label_values(&[relay, outcome]));
        let [reserve_errors, settle_errors] =
            CALLS.map(|call| SOURCE_ERRORS.with_label_values(&[relay, call]));
        Self {
            confirmed,
            rejected,
            dead,
            unavailable,
            held: HELD.with_label_values(&[relay]),
            breaker_open: BREAKER.with_label_values(&[relay]),
            delivery: DELIVERY.with_label_values(&[relay]),
            reserve_errors,
            settle_errors,
        }
    }

    /// Removes the series of a relay that has ended.
    pub(crate) fn remove(relay: &str) {
        // Series that do not exist need no removal.
        for outcome in OUTCOMES {
            let _ = JOBS.remove_label_values(&[relay, outcome]);
        }
        for call in CALLS {
            let _ = SOURCE_ERRORS.remove_label_values(&[relay, call]);
        }
        let _ = HELD.remove_label_values(&[relay]);
        let _ = BREAKER.remove_label_values(&[relay]);
        let _ = DELIVERY.remove_label_values(&[relay]);
    }
}
