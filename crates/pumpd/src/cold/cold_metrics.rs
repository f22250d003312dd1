//! Metrics of the cold tier.

use std::sync::LazyLock;

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use tidegate_daemon::metrics::{counters, gauges};
use tidegate_store::ColdListing;

static MOVED: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_cold_moved_jobs_total",
        "Number of jobs whose payload went to the cold tier (frozen), or came back (thawed).",
        &["pool", "to"],
    )
});

static FROZEN_BYTES: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_cold_frozen_bytes_total",
        "Bytes of payloads that went to the cold tier.",
        &["pool"],
    )
});

static FAILED: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_cold_failed_passes_total",
        "Number of passes of the cold tier that failed and are repeated: freeze, thaw or collect.",
        &["pool", "task"],
    )
});

static FAILING: LazyLock<IntGaugeVec> = LazyLock::new(|| {
    gauges(
        "tidegate_cold_failing",
        "Whether the last pass of the cold tier has failed: freeze, thaw or collect.",
        &["pool", "task"],
    )
});

static DAMAGED: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_cold_damaged_segments_total",
        "Number of times that a segment was read that is not as it was written. The log names it.",
        &["pool"],
    )
});

/// The names and help texts of the gauges of a pool, in the order of [`ColdMetrics::new`].
const GAUGES: [(&str, &str); 4] = [
    (
        "tidegate_cold_segments",
        "Number of segments in the object store, as the pump that leads bucket 0 has listed them.",
    ),
    ("tidegate_cold_bytes", "Bytes of these segments."),
    (
        "tidegate_cold_payloads",
        "Number of payloads in these segments, including those of jobs that are gone or warm.",
    ),
    (
        "tidegate_cold_overdue_partitions",
        "Number of partitions that should be back and are not, as far as this instance is responsible.",
    ),
];

static OF_POOL: LazyLock<[IntGaugeVec; 4]> =
    LazyLock::new(|| GAUGES.map(|(name, help)| gauges(name, help, &["pool"])));

/// The metrics of the cold tier of one pool.
#[derive(Debug)]
pub(super) struct ColdMetrics {
    pub(super) frozen: IntCounter,
    pub(super) thawed: IntCounter,
    pub(super) frozen_bytes: IntCounter,
    pub(super) damaged: IntCounter,
    pub(super) freeze: ColdTaskMetrics,
    pub(super) thaw: ColdTaskMetrics,
    pub(super) collect: ColdTaskMetrics,
    pub(super) segments: IntGauge,
    pub(super) bytes: IntGauge,
    pub(super) payloads: IntGauge,
    pub(super) overdue: IntGauge,
}

/// Passes of one task.
#[derive(Debug)]
pub(super) struct ColdTaskMetrics {
    failed: IntCounter,
    failing: IntGauge,
}

impl ColdTaskMetrics {
    fn new(pool: &str, task: &str) -> Self {
        Self {
            failed: FAILED.with_label_values(&[pool, task]),
            failing: FAILING.with_label_values(&[pool, task]),
        }
    }

    pub(super) fn pass_succeeded(&self) {
        self.failing.set(0);
    }

    pub(super) fn pass_failed(&self) {
        self.failed.inc();
        self.failing.set(1);
    }
}

impl ColdMetrics {
    pub(super) fn new(pool: &str) -> Self {
        let moved = |to: &str| MOVED.with_label_values(&[pool, to]);
        let [segments, bytes, payloads, overdue] = OF_POOL
            .each_ref()
            .map(|family| family.with_label_values(&[pool]));
        Self {
            frozen: moved("frozen"),
            thawed: moved("thawed"),
            frozen_bytes: FROZEN_BYTES.with_label_values(&[pool]),
            damaged: DAMAGED.with_label_values(&[pool]),
            freeze: ColdTaskMetrics::new(pool, "freeze"),
            thaw: ColdTaskMetrics::new(pool, "thaw"),
            collect: ColdTaskMetrics::new(pool, "collect"),
            segments,
            bytes,
            payloads,
            overdue,
        }
    }

    /// Shows this listing; an empty one if another instance counts the segments.
    pub(super) fn listed(&self, listing: &ColdListing) {
        let shown = [
            (&self.segments, listing.segments),
            (&self.bytes, listing.bytes),
            (&self.payloads, listing.payloads),
        ];
        for (gauge, value) in shown {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }
}
