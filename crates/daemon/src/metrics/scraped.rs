//! Families that are made for a scrape: a row that has gone is not shown.
//!
//! The families of the `prometheus` crate find a series by a hash of the joined values of its labels, so queue `c` of
//! namespace `ab` and queue `bc` of namespace `a` would be one series. Here each row is a series.

use prometheus::core::Metric as _;
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Histogram, HistogramOpts};

/// A family of gauges: its name, its help text, and its value for a row, if that has one.
pub type GaugeFamily<T> = (&'static str, &'static str, fn(&T) -> Option<f64>);

/// The name and the help text of a family.
pub type FamilyTexts = (&'static str, &'static str);

/// Makes a family of gauges of these rows, each with the values of its labels.
pub fn gauges_of_scrape<'a, T: 'a, V: Into<String>, const LABELS: usize>(
    (name, help, value): &GaugeFamily<T>,
    labels: [&str; LABELS],
    rows: impl Iterator<Item = ([V; LABELS], &'a T)>,
) -> MetricFamily {
    let metrics = rows.filter_map(|(values, row)| {
        let mut gauge = Gauge::default();
        gauge.set_value(value(row)?);
        let mut metric = Metric::from_label(label_pairs(labels, values));
        metric.set_gauge(gauge);
        Some(metric)
    });
    family((name, help), MetricType::GAUGE, metrics)
}

/// Makes a family of these counters, each with the values of its labels.
pub fn counters_of_scrape<V: Into<String>, const LABELS: usize>(
    texts: FamilyTexts,
    labels: [&str; LABELS],
    counts: impl Iterator<Item = ([V; LABELS], u64)>,
) -> MetricFamily {
    let metrics = counts.map(|(values, count)| {
        let mut counter = Counter::default();
        counter.set_value(count as f64);
        let mut metric = Metric::from_label(label_pairs(labels, values));
        metric.set_counter(counter);
        metric
    });
    family(texts, MetricType::COUNTER, metrics)
}

/// Makes a family of these histograms, each with the values of its labels. A histogram without an event is not shown.
pub fn histograms_of_scrape<'a, V: Into<String>, const LABELS: usize>(
    texts: FamilyTexts,
    labels: [&str; LABELS],
    histograms: impl Iterator<Item = ([V; LABELS], &'a Histogram)>,
) -> MetricFamily {
    let histograms = histograms.filter(|(_, histogram)| histogram.get_sample_count() > 0);
    let metrics = histograms.map(|(values, histogram)| {
        let mut metric = histogram.metric();
        metric.set_label(label_pairs(labels, values));
        metric
    });
    family(texts, MetricType::HISTOGRAM, metrics)
}

/// Creates a histogram for [`histograms_of_scrape`].
///
/// # Panics
/// The bounds do not ascend.
#[must_use]
pub fn histogram(bounds: &[f64]) -> Histogram {
    let options = HistogramOpts::new("unnamed", "Named for a scrape.").buckets(bounds.to_vec());
    Histogram::with_opts(options).expect("valid bounds")
}

/// Pairs in the order of their names.
fn label_pairs<V: Into<String>, const LABELS: usize>(
    names: [&str; LABELS],
    values: [V; LABELS],
) -> Vec<LabelPair> {
    let pairs = names.into_iter().zip(values).map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name(name.to_owned());
        pair.set_value(value.into());
        pair
    });
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort_by(|one, other| one.name().cmp(other.name()));
    pairs
}

fn family(
    (name, help): (&str, &str),
    kind: MetricType,
    metrics: impl Iterator<Item = Metric>,
) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics.collect());
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_join_to_one_text_have_two_series() {
        let rows = [(["bc", "a"], &1.0), (["c", "ab"], &2.0)];
        let gauges: GaugeFamily<f64> = ("jobs", "Number of jobs.", |jobs| Some(*jobs));
        let family = gauges_of_scrape(&gauges, ["queue", "namespace"], rows.into_iter());
        let text = prometheus::TextEncoder::new().encode_to_string(&[family]);
        let expected = "# HELP jobs Number of jobs.\n# TYPE jobs gauge\n\
                        jobs{namespace=\"a\",queue=\"bc\"} 1\njobs{namespace=\"ab\",queue=\"c\"} 2\n";
        assert_eq!(text.unwrap(), expected);
    }
}
