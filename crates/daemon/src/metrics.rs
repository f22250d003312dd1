//! Metrics in the Prometheus text format. Families are registered in the default registry of the `prometheus` crate
//! when they are first used. Families whose series come and go are made for each scrape.

mod queue_series;
mod scraped;

use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use prometheus::proto::MetricFamily;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, TextEncoder,
    register_histogram_vec, register_int_counter, register_int_counter_vec, register_int_gauge_vec,
};
use serde::Deserialize;

use crate::logs::lines_lost;
pub use queue_series::{OF_QUEUE, OTHER, QueueRows, labeled_rows, may_have_series, queue_rows};
pub use scraped::{
    FamilyTexts, GaugeFamily, counters_of_scrape, gauges_of_scrape, histogram, histograms_of_scrape,
};

/// The limits on the cost of metrics.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsConfig {
    /// The most queues of a pool, and the most namespaces, that have metrics of their own.
    pub queues_max: usize,
    /// How long figures that were read from Redis on request are cached.
    #[serde(with = "tidegate_core::duration")]
    pub refresh: Duration,
}

/// Open connections, by listener.
pub(crate) static CONNECTIONS: LazyLock<IntGaugeVec> = LazyLock::new(|| {
    gauges(
        "tidegate_http_connections",
        "Number of open client connections, by listener.",
        &["listener"],
    )
});

/// Headers, bodies and answers that did not fit into the budget of bytes in flight.
pub static OVER_BUDGET: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_http_over_budget_total",
        "Number of headers and bodies rejected, and of answers with fewer jobs, because too many bytes were in flight.",
        &["what"],
    )
});

const LOG_LINES_LOST: FamilyTexts = (
    "tidegate_log_lines_lost_total",
    "Number of log lines lost because the output was blocked or failed.",
);

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const REGISTERED_ONCE: &str = "a valid family that is registered once";

/// Registers a counter without labels.
///
/// # Panics
/// The name is invalid or registered.
#[must_use]
pub fn counter(name: &str, help: &str) -> IntCounter {
    register_int_counter!(name, help).expect(REGISTERED_ONCE)
}

/// Registers a family of counters.
///
/// # Panics
/// The name or a label is invalid, or the name is registered.
#[must_use]
pub fn counters(name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    register_int_counter_vec!(name, help, labels).expect(REGISTERED_ONCE)
}

/// Registers a family of gauges.
///
/// # Panics
/// The name or a label is invalid, or the name is registered.
#[must_use]
pub fn gauges(name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
    register_int_gauge_vec!(name, help, labels).expect(REGISTERED_ONCE)
}

/// Registers a family of histograms. `bounds` are the upper bounds of the buckets, in ascending order.
///
/// # Panics
/// The name, a label or the bounds are invalid, or the name is registered.
#[must_use]
pub fn histograms(name: &str, help: &str, labels: &[&str], bounds: &[f64]) -> HistogramVec {
    let options = HistogramOpts::new(name, help).buckets(bounds.to_vec());
    register_histogram_vec!(options, labels).expect(REGISTERED_ONCE)
}

type PageSource =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Vec<MetricFamily>> + Send>> + Send + Sync>;

/// The metrics of the process. Cheap to clone.
#[expect(missing_debug_implementations, reason = "there is nothing to show")]
#[derive(Clone, Default)]
pub struct Metrics {
    page_sources: Option<PageSource>,
}

impl Metrics {
    /// All registered families, and the families that `more` reads for each scrape. Their names must differ.
    #[must_use]
    pub fn with_page<F>(more: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Vec<MetricFamily>> + Send + 'static,
    {
        let more: PageSource = Arc::new(move || Box::pin(more()));
        Self {
            page_sources: Some(more),
        }
    }

    /// Renders all metrics in the Prometheus text format, on a thread for blocking work: there may be tens of thousands
    /// of lines, and requests must not wait for them.
    pub async fn render(&self) -> String {
        let more = match &self.page_sources {
            Some(more) => more().await,
            None => Vec::new(),
        };
        let rendered = tokio::task::spawn_blocking(|| render_with(more)).await;
        // It does not panic.
        rendered.unwrap_or_default()
    }
}

fn render_with(mut families: Vec<MetricFamily>) -> String {
    let lost = [([""; 0], lines_lost())];
    families.push(counters_of_scrape(LOG_LINES_LOST, [], lost.into_iter()));
    // After the others, since reading them may record metrics.
    families.extend(prometheus::gather());
    families.retain(|family| !family.get_metric().is_empty());
    families.sort_by(|one, other| one.name().cmp(other.name()));
    let text = TextEncoder::new().encode_to_string(&families);
    text.unwrap_or_else(|error| {
        // Families are checked when they are registered.
        tracing::error!(%error, "failed to render metrics");
        String::new()
    })
}
