//! Metrics that somebody keeps himself, as text. For what comes and goes, such as the figures of a
//! queue: what was recorded through the macros stays for ever.

use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the samples of a family are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// How many values there were up to each of some bounds.
    Histogram,
}

/// A metric with all its labels.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What its samples are.
    pub kind: Kind,
    /// What it means, on one line.
    pub help: &'static str,
}

/// Names and values of labels.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// Families in the text format of Prometheus, one after the other.
#[derive(Debug, Default)]
pub struct Page(String);

/// A family that is being written.
#[derive(Debug)]
pub struct Samples<'a> {
    page: &'a mut String,
    family: &'a Family,
    is_begun: bool,
}

impl Page {
    /// Begins a family. Each family is to be begun once. One without samples is left out.
    pub fn family<'a>(&'a mut self, family: &'a Family) -> Samples<'a> {
        Samples {
            page: &mut self.0,
            family,
            is_begun: false,
        }
    }

    /// The text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }
}

impl Samples<'_> {
    /// Adds a counter or a gauge.
    pub fn add(&mut self, labels: Labels<'_>, value: impl Display) {
        self.line("", labels, None, value);
    }

    /// Adds a histogram.
    pub fn add_histogram(&mut self, labels: Labels<'_>, histogram: &MillisHistogram) {
        let mut count = 0;
        for (at, bound) in histogram.bounds_ms.iter().enumerate() {
            count += histogram.counts[at].load(Ordering::Relaxed);
            self.line("_bucket", labels, Some(&bound.to_string()), count);
        }
        count += histogram.counts[histogram.bounds_ms.len()].load(Ordering::Relaxed);
        self.line("_bucket", labels, Some("+Inf"), count);
        let sum_ms = histogram.sum_us.load(Ordering::Relaxed) as f64 / 1000.0;
        self.line("_sum", labels, None, sum_ms);
        self.line("_count", labels, None, count);
    }

    fn begin(&mut self) {
        if std::mem::replace(&mut self.is_begun, true) {
            return;
        }
        let Family { name, kind, help } = self.family;
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a text cannot fail.
        let _ = writeln!(self.page, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, le: Option<&str>, value: impl Display) {
        self.begin();
        self.page.push_str(self.family.name);
        self.page.push_str(suffix);
        let le = le.map(|bound| ("le", bound));
        let mut before = '{';
        for (label, text) in labels.iter().copied().chain(le) {
            self.page.push(before);
            before = ',';
            self.page.push_str(label);
            self.page.push_str("=\"");
            push_escaped(self.page, text);
            self.page.push('"');
        }
        if before == ',' {
            self.page.push('}');
        }
        let _ = writeln!(self.page, " {value}");
    }
}

fn push_escaped(page: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\\' => page.push_str("\\\\"),
            '"' => page.push_str("\\\""),
            '\n' => page.push_str("\\n"),
            plain => page.push(plain),
        }
    }
}

/// A histogram of durations, shown in milliseconds. Recording takes no lock and no memory.
#[derive(Debug)]
pub struct MillisHistogram {
    bounds_ms: &'static [f64],
    /// Values by bucket, not added up; the last is for those above every bound.
    counts: Box<[AtomicU64]>,
    sum_us: AtomicU64,
}

impl MillisHistogram {
    /// An empty one with these upper bounds, which ascend.
    #[must_use]
    pub fn new(bounds_ms: &'static [f64]) -> Self {
        Self {
            bounds_ms,
            counts: (0..=bounds_ms.len()).map(|_| AtomicU64::new(0)).collect(),
            sum_us: AtomicU64::new(0),
        }
    }

    /// Adds a value.
    pub fn record(&self, duration: Duration) {
        let ms = duration.as_secs_f64() * 1000.0;
        let bucket = self.bounds_ms.iter().position(|bound| ms <= *bound);
        let bucket = bucket.unwrap_or(self.bounds_ms.len());
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Whether no value was added yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts
            .iter()
            .all(|count| count.load(Ordering::Relaxed) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_told_with_their_samples_or_not_at_all() {
        let jobs = Family {
            name: "jobs_total",
            kind: Kind::Counter,
            help: "Jobs",
        };
        let none = Family {
            name: "none",
            kind: Kind::Gauge,
            help: "Nothing",
        };
        let mut page = Page::default();
        let _ = page.family(&none);
        let mut samples = page.family(&jobs);
        samples.add(&[("pool", "a\"b\\c\nd"), ("queue", "")], 5_u64);
        samples.add(&[], 0.25);
        let expected = "# HELP jobs_total Jobs\n# TYPE jobs_total counter\n\
                        jobs_total{pool=\"a\\\"b\\\\c\\nd\",queue=\"\"} 5\njobs_total 0.25\n";
        assert_eq!(page.into_text(), expected);
    }

    #[test]
    fn buckets_add_up_and_their_bounds_are_inclusive() {
        let took = Family {
            name: "took_ms",
            kind: Kind::Histogram,
            help: "Time",
        };
        let histogram = MillisHistogram::new(&[15.0, 37.5]);
        assert!(histogram.is_empty());
        for us in [500, 15_000, 15_001, 37_500, 40_000] {
            histogram.record(Duration::from_micros(us));
        }
        assert!(!histogram.is_empty());
        let mut page = Page::default();
        page.family(&took).add_histogram(&[("a", "b")], &histogram);
        let text = page.into_text();
        let samples: Vec<&str> = text.lines().skip(2).collect();
        let expected = [
            "took_ms_bucket{a=\"b\",le=\"15\"} 2",
            "took_ms_bucket{a=\"b\",le=\"37.5\"} 4",
            "took_ms_bucket{a=\"b\",le=\"+Inf\"} 5",
            "took_ms_sum{a=\"b\"} 108.001",
            "took_ms_count{a=\"b\"} 5",
        ];
        assert_eq!(samples, expected);
    }
}
