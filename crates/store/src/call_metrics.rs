//! Metrics of calls to Redis. Latency and calls have lmstfy's metric names.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, register_histogram_vec,
    register_int_counter, register_int_counter_vec,
};

/// In ms: 1 ms to 32.768 s.
const LATENCY_BOUNDS: [f64; 16] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0,
    16384.0, 32768.0,
];

const LABELS: [&str; 3] = ["node", "command", "status"];
pub(crate) const REGISTERED_ONCE: &str = "a valid family that is registered once";

static LATENCY: LazyLock<HistogramVec> = LazyLock::new(|| {
    let options = HistogramOpts::new(
        "infra_lmstfy_redis_latency",
        "Time from sending a call to Redis to its reply, in milliseconds.",
    );
    let options = options.buckets(LATENCY_BOUNDS.to_vec());
    register_histogram_vec!(options, &LABELS).expect(REGISTERED_ONCE)
});

static CALLS: LazyLock<IntCounterVec> = LazyLock::new(|| {
    let calls = register_int_counter_vec!(
        "infra_lmstfy_redis_qps",
        "Number of calls to Redis.",
        &LABELS
    );
    calls.expect(REGISTERED_ONCE)
});

/// Jobs that were not delivered because they are damaged.
pub(crate) static CORRUPT: LazyLock<IntCounter> = LazyLock::new(|| {
    let corrupt = register_int_counter!(
        "tidegate_corrupt_jobs_total",
        "Number of times that a damaged job was found instead of being delivered. The log contains its id."
    );
    corrupt.expect(REGISTERED_ONCE)
});

/// The metrics of calls to one server.
#[derive(Debug)]
pub(crate) struct CallMetrics {
    node: String,
    succeeded: CommandMetricsMap,
    failed: CommandMetricsMap,
}

type CommandMetricsMap = RwLock<HashMap<Box<str>, Arc<CommandMetrics>>>;

#[derive(Debug)]
struct CommandMetrics {
    latency: Histogram,
    calls: IntCounter,
}

impl CallMetrics {
    /// The metrics of the server with this address.
    pub(crate) fn new(node: String) -> Self {
        Self {
            node,
            succeeded: RwLock::default(),
            failed: RwLock::default(),
        }
    }

    /// Records a call that began at `began_at` and ends now. `command` is one of the few that this crate sends.
    pub(crate) fn record_call(&self, command: &str, began_at: Instant, is_ok: bool) {
        let of_command = self.of(command, is_ok);
        of_command.latency.observe(millis(began_at.elapsed()));
        of_command.calls.inc();
    }

    fn of(&self, command: &str, is_ok: bool) -> Arc<CommandMetrics> {
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
        let lower = command.to_lowercase();
        let labels = [self.node.as_str(), lower.as_str(), status];
        let new = Arc::new(CommandMetrics {
            latency: LATENCY.with_label_values(&labels),
            calls: CALLS.with_label_values(&labels),
        });
        let mut known = all.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(command.into()).or_insert(new))
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
