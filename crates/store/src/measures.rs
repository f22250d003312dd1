//! What the store tells about its calls, under the names that lmstfy gave them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use metrics::{Counter, Histogram, counter, describe_counter, describe_histogram, histogram};

const LATENCY: &str = "infra_lmstfy_redis_latency";
const CALLS: &str = "infra_lmstfy_redis_qps";

/// Deliveries that were not made.
pub(crate) const CORRUPT: &str = "tidegate_corrupt_jobs_total";

/// 1 ms to 32 s.
const LATENCY_BOUNDS: [f64; 16] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0,
    16384.0, 32768.0,
];

/// The histograms of a store and the upper bounds of their buckets, to be known before the first call.
pub const HISTOGRAMS: [(&str, &[f64]); 1] = [(LATENCY, &LATENCY_BOUNDS)];

/// Says once per process what the metrics of stores mean.
pub fn describe_metrics() {
    describe_histogram!(
        LATENCY,
        "From sending a call to Redis to its answer, in ms, by verb"
    );
    describe_counter!(CALLS, "Calls to Redis, by verb");
    describe_counter!(
        CORRUPT,
        "Jobs met that cannot be decoded, each time; the log names them"
    );
}

/// What one connection counts.
#[derive(Debug)]
pub(crate) struct Measures {
    node: String,
    succeeded: OfCommands,
    failed: OfCommands,
}

type OfCommands = RwLock<HashMap<Box<str>, Arc<OfCommand>>>;

#[derive(Debug)]
struct OfCommand {
    latency: Histogram,
    calls: Counter,
}

impl Measures {
    /// For calls to this server.
    pub(crate) fn new(node: String) -> Self {
        Self {
            node,
            succeeded: RwLock::default(),
            failed: RwLock::default(),
        }
    }

    /// A call that began at `began_at` has ended. `command` is one of the few that this crate sends.
    pub(crate) fn called(&self, command: &str, began_at: Instant, is_ok: bool) {
        let of_command = self.of(command, is_ok);
        of_command.latency.record(millis(began_at.elapsed()));
        of_command.calls.increment(1);
    }

    fn of(&self, command: &str, is_ok: bool) -> Arc<OfCommand> {
        let (all, status) = if is_ok {
            (&self.succeeded, "ok")
        } else {
            (&self.failed, "error")
        };
        let known = all.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(command) {
            return Arc::clone(known);
        }
        drop(known);
        let labels = [
            ("node", self.node.clone()),
            ("command", command.to_lowercase()),
            ("status", status.to_owned()),
        ];
        let new = Arc::new(OfCommand {
            latency: histogram!(LATENCY, &labels),
            calls: counter!(CALLS, &labels),
        });
        let mut known = all.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(command.into()).or_insert(new))
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
