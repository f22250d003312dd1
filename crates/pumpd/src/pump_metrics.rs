//! Metrics of the pump.

use std::sync::LazyLock;

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use tidegate_daemon::metrics::{counters, gauges, histograms};
use tidegate_store::MoveDueOutcome;

/// Upper bounds in seconds, from normal lateness to that after an outage.
const LATENESS_BOUNDS: [f64; 14] = [
    0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0,
];

static MOVED: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_pump_moved_total",
        "Number of jobs that became ready or dead, or were deleted because they had expired.",
        &["pool", "to"],
    )
});

static TICKS: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_pump_schedule_ticks_total",
        "Number of ticks of schedules for which a job was published, the job of an earlier tick stays, or there is no job.",
        &["pool", "outcome"],
    )
});

/// The names and help texts of the counters of a pool, in the order of [`PumpMetrics::new`].
const COUNTERS: [(&str, &str); 6] = [
    (
        "tidegate_pump_stale_hints_total",
        "Number of due hints that were dropped because no record agreed.",
    ),
    (
        "tidegate_pump_loaded_hints_total",
        "Number of timers loaded from far slots.",
    ),
    (
        "tidegate_pump_failed_runs_total",
        "Number of runs of a bucket that failed, or that left ticks of schedules for later since a call failed.",
    ),
    (
        "infra_lmstfy_redis_timer_due_jobs",
        "Number of jobs whose delay or lease had ended.",
    ),
    (
        "infra_lmstfy_redis_timer_full_batches",
        "Number of calls that left due jobs for the next call.",
    ),
    (
        "tidegate_pump_deleted_dead_total",
        "Number of dead jobs that were deleted, as their queues keep none of their age.",
    ),
];

static OF_POOL: LazyLock<[IntCounterVec; 6]> =
    LazyLock::new(|| COUNTERS.map(|(name, help)| counters(name, help, &["pool"])));

static HELD: LazyLock<IntGaugeVec> = LazyLock::new(|| {
    gauges(
        "tidegate_pump_buckets_held",
        "Number of buckets that this instance leads.",
        &["pool"],
    )
});

static LATENESS: LazyLock<HistogramVec> = LazyLock::new(|| {
    histograms(
        "tidegate_pump_lateness_seconds",
        "Time from due to ready, in seconds.",
        &["pool"],
        &LATENESS_BOUNDS,
    )
});

/// The outcome of a tick, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TickResult {
    /// A job was stored or replaced.
    Published,
    /// The job of an earlier tick stays.
    Kept,
    /// No job: the tick was missed, or the queue is closed or full.
    LeftOut,
}

/// The metrics of the pump of one pool.
#[derive(Debug)]
pub(crate) struct PumpMetrics {
    to_ready: IntCounter,
    to_dead: IntCounter,
    to_expired: IntCounter,
    stale: IntCounter,
    loaded: IntCounter,
    failed: IntCounter,
    due: IntCounter,
    full: IntCounter,
    deleted_dead: IntCounter,
    ticks_published: IntCounter,
    ticks_kept: IntCounter,
    ticks_left_out: IntCounter,
    lateness: Histogram,
    held: IntGauge,
}

impl PumpMetrics {
    pub(crate) fn new(pool: &str) -> Self {
        let moved = |to: &str| MOVED.with_label_values(&[pool, to]);
        let ticks = |outcome: &str| TICKS.with_label_values(&[pool, outcome]);
        let (ticks_published, ticks_kept) = (ticks("published"), ticks("kept"));
        let ticks_left_out = ticks("left_out");
        let pool = &[pool];
        let [stale, loaded, failed, due, full, deleted_dead] = OF_POOL
            .each_ref()
            .map(|family| family.with_label_values(pool));
        Self {
            to_ready: moved("ready"),
            to_dead: moved("dead"),
            to_expired: moved("expired"),
            stale,
            loaded,
            failed,
            due,
            full,
            deleted_dead,
            ticks_published,
            ticks_kept,
            ticks_left_out,
            lateness: LATENESS.with_label_values(pool),
            held: HELD.with_label_values(pool),
        }
    }

    pub(crate) fn moved(&self, moved: &MoveDueOutcome) {
        if let MoveDueOutcome::Done {
            more,
            buried,
            expired,
            stale,
            latenesses_ms,
            ..
        } = moved
        {
            let ready = latenesses_ms.len() as u64;
            self.to_ready.inc_by(ready);
            self.due.inc_by(ready + buried + expired);
            self.full.inc_by(u64::from(*more));
            self.to_dead.inc_by(*buried);
            self.to_expired.inc_by(*expired);
            self.stale.inc_by(*stale);
            for late_ms in latenesses_ms {
                self.lateness.observe(*late_ms as f64 / 1000.0);
            }
        }
    }

    pub(crate) fn swept(&self, expired: u64) {
        self.to_expired.inc_by(expired);
    }

    pub(crate) fn loaded(&self, hints: u64) {
        self.loaded.inc_by(hints);
    }

    pub(crate) fn deleted_dead(&self, jobs: u64) {
        self.deleted_dead.inc_by(jobs);
    }

    pub(crate) fn tick(&self, result: TickResult) {
        match result {
            TickResult::Published => self.ticks_published.inc(),
            TickResult::Kept => self.ticks_kept.inc(),
            TickResult::LeftOut => self.ticks_left_out.inc(),
        }
    }

    pub(crate) fn failed(&self) {
        self.failed.inc();
    }

    /// The gauge of buckets that this instance leads.
    pub(crate) fn held(&self) -> IntGauge {
        self.held.clone()
    }
}
