//! The result of a load, as text and as JSON.

use std::fmt::Write;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::arguments::BenchArguments;
use super::load::LoadCounts;
use crate::failure::CommandFailure;
use crate::output::CommandOutput;

/// Percentiles of latencies, in milliseconds.
#[derive(Debug, Serialize)]
struct LatencyPercentiles {
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

#[derive(Debug, Serialize)]
struct BenchLatencies {
    publish: LatencyPercentiles,
    ack: LatencyPercentiles,
    delivery: LatencyPercentiles,
}

#[derive(Debug, Serialize)]
pub(super) struct BenchReport {
    queue: String,
    connections: u16,
    batch: u16,
    payload_bytes: u32,
    time_ms: u64,
    seconds: f64,
    published: u64,
    consumed: u64,
    published_per_second: f64,
    consumed_per_second: f64,
    errors: u64,
    left: u64,
    latency_ms: BenchLatencies,
}

impl BenchReport {
    #[allow(clippy::cast_precision_loss, reason = "rates are rounded")]
    pub(super) fn new(
        queue: String,
        arguments: &BenchArguments,
        counts: LoadCounts,
        seconds: f64,
        left: u64,
    ) -> Self {
        Self {
            queue,
            connections: arguments.connections,
            batch: arguments.batch.get(),
            payload_bytes: arguments.payload_bytes,
            time_ms: arguments.time.as_ms(),
            seconds,
            published: counts.published,
            consumed: counts.consumed,
            published_per_second: counts.published_in_time as f64 / seconds,
            consumed_per_second: counts.consumed_in_time as f64 / seconds,
            errors: counts.errors,
            left,
            latency_ms: BenchLatencies {
                publish: percentiles(&counts.publish),
                ack: percentiles(&counts.ack),
                delivery: percentiles(&counts.delivery),
            },
        }
    }

    /// The report as the command prints it.
    ///
    /// # Errors
    /// It cannot be encoded as JSON.
    pub(super) fn output(&self, as_json: bool) -> Result<CommandOutput, CommandFailure> {
        match as_json {
            true => Ok(CommandOutput::answer(self)?),
            false => Ok(CommandOutput::Bytes(self.text().into_bytes())),
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{:.1} s with {} connections, {} jobs a request at most, payloads of {} B\n\n",
            self.seconds, self.connections, self.batch, self.payload_bytes
        );
        for (what, jobs, rate) in [
            ("published", self.published, self.published_per_second),
            ("consumed", self.consumed, self.consumed_per_second),
        ] {
            let _ = writeln!(text, "{what:<10} {jobs:>9} jobs  {rate:>9.0}/s");
        }
        if self.errors > 0 {
            let _ = writeln!(
                text,
                "{:<10} {:>9} requests, sent again",
                "failed", self.errors
            );
        }
        if self.left > 0 {
            let (left, queue) = (self.left, &self.queue);
            let _ = writeln!(text, "{:<10} {left:>9} jobs in the queue {queue}", "left");
        }
        let _ = writeln!(
            text,
            "\n{:<10} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "ms", "p50", "p90", "p99", "p99.9", "max"
        );
        let BenchLatencies {
            publish,
            ack,
            delivery,
        } = &self.latency_ms;
        for (what, of) in [("publish", publish), ("delivery", delivery), ("ack", ack)] {
            let _ = writeln!(
                text,
                "{what:<10} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2}",
                of.p50, of.p90, of.p99, of.p999, of.max
            );
        }
        text
    }
}

#[allow(clippy::cast_precision_loss, reason = "latencies are rounded")]
fn percentiles(histogram: &Histogram<u64>) -> LatencyPercentiles {
    let ms = |microseconds: u64| microseconds as f64 / 1_000.0;
    let at = |quantile: f64| ms(histogram.value_at_quantile(quantile));
    LatencyPercentiles {
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: ms(histogram.max()),
    }
}
