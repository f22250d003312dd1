//! What the pump tells about itself.

use metrics::{Counter, Gauge, Histogram};
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use tidegate_store::MovedDue;

const MOVED: &str = "tidegate_pump_moved_total";
const STALE: &str = "tidegate_pump_stale_hints_total";
const LOADED: &str = "tidegate_pump_loaded_hints_total";
const LATENESS: &str = "tidegate_pump_lateness_seconds";
const HELD: &str = "tidegate_pump_buckets_held";
const FAILED: &str = "tidegate_pump_failed_runs_total";
const DUE: &str = "infra_lmstfy_redis_timer_due_jobs";
const FULL: &str = "infra_lmstfy_redis_timer_full_batches";

/// From well below the promise to an outage, in seconds.
const LATENESS_BOUNDS: [f64; 14] = [
    0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0,
];

/// The histograms and the upper bounds of their buckets.
pub(crate) const HISTOGRAMS: [(&str, &[f64]); 2] =
    [(LATENESS, &LATENESS_BOUNDS), tidegate_store::HISTOGRAMS[0]];

/// Says once per process what the metrics mean.
pub(crate) fn describe() {
    describe_counter!(
        MOVED,
        "Jobs moved: to ready (delays and leases over), dead or expired"
    );
    describe_counter!(STALE, "Due hints that no record agreed with");
    describe_counter!(LOADED, "Far hints loaded into near");
    describe_counter!(FAILED, "Runs of a bucket that Redis failed");
    describe_counter!(DUE, "Jobs whose delay or lease was over");
    describe_counter!(FULL, "Calls for due jobs that left some for the next one");
    tidegate_store::describe_metrics();
    describe_gauge!(HELD, "Buckets led by this instance");
    describe_histogram!(LATENESS, "Moment a job was made ready minus its due time");
}

/// What one pool's pump counts.
#[derive(Debug)]
pub(crate) struct Measures {
    to_ready: Counter,
    to_dead: Counter,
    to_expired: Counter,
    stale: Counter,
    loaded: Counter,
    failed: Counter,
    due: Counter,
    full: Counter,
    lateness: Histogram,
    held: Gauge,
}

impl Measures {
    pub(crate) fn new(pool: &str) -> Self {
        let moved = |to: &'static str| counter!(MOVED, "pool" => pool.to_owned(), "to" => to);
        Self {
            to_ready: moved("ready"),
            to_dead: moved("dead"),
            to_expired: moved("expired"),
            stale: counter!(STALE, "pool" => pool.to_owned()),
            loaded: counter!(LOADED, "pool" => pool.to_owned()),
            failed: counter!(FAILED, "pool" => pool.to_owned()),
            due: counter!(DUE, "pool" => pool.to_owned()),
            full: counter!(FULL, "pool" => pool.to_owned()),
            lateness: histogram!(LATENESS, "pool" => pool.to_owned()),
            held: gauge!(HELD, "pool" => pool.to_owned()),
        }
    }

    pub(crate) fn moved(&self, moved: &MovedDue) {
        if let MovedDue::Done {
            more,
            buried,
            expired,
            stale,
            latenesses_ms,
            ..
        } = moved
        {
            let ready = latenesses_ms.len() as u64;
            self.to_ready.increment(ready);
            self.due.increment(ready + buried + expired);
            self.full.increment(u64::from(*more));
            self.to_dead.increment(*buried);
            self.to_expired.increment(*expired);
            self.stale.increment(*stale);
            for late_ms in latenesses_ms {
                self.lateness.record(*late_ms as f64 / 1000.0);
            }
        }
    }

    pub(crate) fn swept(&self, expired: u64) {
        self.to_expired.increment(expired);
    }

    pub(crate) fn loaded(&self, hints: u64) {
        self.loaded.increment(hints);
    }

    pub(crate) fn failed(&self) {
        self.failed.increment(1);
    }

    /// How many buckets are led.
    pub(crate) fn held(&self) -> Gauge {
        self.held.clone()
    }
}
