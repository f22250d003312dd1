//! Durations as a distribution.

use std::time::Duration;

use hdrhistogram::Histogram;
use tidegate_testkit::print_figure;

/// Durations in µs, to three digits.
#[derive(Debug)]
pub(crate) struct Durations(Histogram<u64>);

impl Durations {
    pub(crate) fn new() -> Self {
        Self(Histogram::new(3).unwrap())
    }

    pub(crate) fn add(&mut self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap();
        self.0.record(us).unwrap();
    }

    pub(crate) fn at(&self, quantile: f64) -> Duration {
        Duration::from_micros(self.0.value_at_quantile(quantile))
    }

    pub(crate) fn max(&self) -> Duration {
        Duration::from_micros(self.0.max())
    }

    pub(crate) fn show(&self, what: &str) {
        let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
        print_figure(&format!(
            "{what}: p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms of {}",
            ms(self.at(0.5)),
            ms(self.at(0.99)),
            ms(self.max()),
            self.0.len()
        ));
    }
}
