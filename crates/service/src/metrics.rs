//! Metrics: recorded through the `metrics` macros anywhere, shown as Prometheus text.

use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Between two sweeps over the recorded histogram samples, which would pile up otherwise.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A histogram and the upper bounds of its buckets.
pub type Buckets<'a> = (&'a str, &'a [f64]);

/// What was recorded so far. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle);

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
    Ok(Metrics(builder.install_recorder()?))
}

impl Metrics {
    /// All metrics in the text format of Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Keeps memory bounded while nobody asks for metrics, until told to stop.
    pub async fn upkeep(self, stop: CancellationToken) {
        let mut ticks = interval(UPKEEP_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.0.run_upkeep();
        }
    }
}
