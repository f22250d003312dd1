//! Metrics: recorded through the `metrics` macros anywhere, or kept by whoever shows them, as
//! Prometheus text.

mod page;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use metrics::{counter, describe_counter, describe_gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::logs::lines_lost;

pub use page::{Family, Kind, Labels, MillisHistogram, Page, Samples};

/// Open connections, by listener.
pub(crate) const CONNECTIONS: &str = "tidegate_http_connections";

/// Headers, bodies and answers that found no room in the budget of bytes in flight.
pub const OVER_BUDGET: &str = "tidegate_http_over_budget_total";

/// Log lines that were dropped.
const LOG_LINES_LOST: &str = "tidegate_log_lines_lost_total";

/// Between two sweeps over the recorded histogram samples, which would pile up otherwise.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The content type of [`Metrics::show`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A histogram and the upper bounds of its buckets.
pub type Buckets<'a> = (&'a str, &'a [f64]);

type More = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Page> + Send>> + Send + Sync>;

/// What was recorded so far. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    recorded: PrometheusHandle,
    more: Option<More>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Metrics")
    }
}

/// Starts recording. To be called once a process, before the first metric.
///
/// # Errors
/// Recording was started already, or a histogram has no bucket.
pub fn init(histograms: &[Buckets<'_>]) -> Result<Metrics, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for (name, bounds) in histograms {
        builder = builder.set_buckets_for_metric(Matcher::Full((*name).to_owned()), bounds)?;
    }
    let recorded = builder.install_recorder()?;
    describe_gauge!(CONNECTIONS, "Open connections, by listener");
    describe_counter!(
        OVER_BUDGET,
        "Number of headers and bodies rejected, and of answers with fewer jobs, because too many bytes were in flight."
    );
    describe_counter!(
        LOG_LINES_LOST,
        "Number of log lines that were dropped because they could not be written in time"
    );
    Ok(Metrics {
        recorded,
        more: None,
    })
}

impl Metrics {
    /// The same, followed by a page that is made whenever somebody asks. Its families must not be among
    /// those that are recorded.
    #[must_use]
    pub fn with<F>(mut self, more: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Page> + Send + 'static,
    {
        self.more = Some(Arc::new(move || Box::pin(more())));
        self
    }

    /// All metrics in the text format of Prometheus.
    pub async fn show(&self) -> String {
        let more = match &self.more {
            Some(more) => more().await,
            None => Page::default(),
        };
        // Lines can be lost before recording starts, so the logs keep the count.
        counter!(LOG_LINES_LOST).absolute(lines_lost());
        // After the page, since making it may have been worth counting.
        let mut text = self.recorded.render();
        text.push_str(&more.into_text());
        text
    }

    /// Keeps memory bounded while nobody asks for metrics, until told to stop.
    pub async fn upkeep(self, stop: CancellationToken) {
        let mut ticks = interval(UPKEEP_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.recorded.run_upkeep();
        }
    }
}
