//! The metrics of a daemon.

use std::time::Duration;

use super::Daemon;
use crate::eventually::eventually;
use crate::raw::RawHttp;

/// Metric of an API: the number of waiting consumers.
const WAITING: &str = "tidegate_waiting_seats";
/// Metric of a pump: the number of buckets that it leads.
const HELD: &str = "tidegate_pump_buckets_held";

impl Daemon {
    /// Returns its metrics, in the Prometheus text format.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn metrics(&self) -> String {
        let mut http = RawHttp::connect(self.admin).await;
        http.request("GET", "/metrics", &[], b"").await;
        let answer = http.answer().await.expect("the admin port answers");
        answer.expect(200).text()
    }

    /// Returns the sum of a metric over all label sets; 0 if it has no samples.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn metric(&self, name: &str) -> f64 {
        self.metric_with_label(name, "").await
    }

    /// Like [`Self::metric`], over the samples with these labels, such as `le="0.005"`; separate several with commas.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn metric_with_label(&self, name: &str, labels: &str) -> f64 {
        let text = self.metrics().await;
        let is_sample = |line: &&str| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| {
                rest.starts_with([' ', '{']) && labels.split(',').all(|label| rest.contains(label))
            })
        };
        let samples = text.lines().filter(is_sample);
        samples
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    /// Waits until exactly `consumers` consumers wait at this API.
    ///
    /// # Panics
    /// If that takes more than 20 s.
    pub async fn wait_for_waiting_consumers(&self, consumers: usize) {
        let what = format!("{consumers} consumers wait");
        eventually(&what, Duration::from_secs(20), async || {
            let waiting = self.metric(WAITING).await;
            if waiting == consumers as f64 {
                Ok(())
            } else {
                Err(waiting)
            }
        })
        .await;
    }

    /// Waits until this pump leads exactly this many buckets.
    ///
    /// # Panics
    /// If that takes more than 20 s.
    pub async fn wait_for_buckets(&self, buckets: u16) {
        let what = format!("the pump leads {buckets} buckets");
        eventually(&what, Duration::from_secs(20), async || {
            match self.metric(HELD).await {
                held if held == f64::from(buckets) => Ok(()),
                held => Err(held),
            }
        })
        .await;
    }
}
