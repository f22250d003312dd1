//! The few figures of `/metrics` that are checked.

/// A line of the text format of Prometheus: a name, labels, and a value.
#[derive(Debug, PartialEq)]
pub(super) struct MetricSample<'a> {
    name: &'a str,
    labels: &'a str,
    value: f64,
}

/// Parses the samples of a page; other lines are left out.
pub(super) fn samples(page: &str) -> Vec<MetricSample<'_>> {
    page.lines().filter_map(sample).collect()
}

fn sample(line: &str) -> Option<MetricSample<'_>> {
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    Some(MetricSample {
        name,
        labels,
        value: value.parse().ok()?,
    })
}

/// The value of a metric of a pool; `None` if the page has none.
pub(super) fn of_pool(samples: &[MetricSample<'_>], name: &str, pool: &str) -> Option<f64> {
    let label = format!("pool=\"{pool}\"");
    let mut found = samples
        .iter()
        .filter(|sample| sample.name == name && sample.labels.contains(&label));
    found.next().map(|sample| sample.value)
}

/// The sum of a metric over all pools; `None` if the page has none.
pub(super) fn sum(samples: &[MetricSample<'_>], name: &str) -> Option<f64> {
    let found = samples.iter().filter(|sample| sample.name == name);
    found
        .map(|sample| sample.value)
        .reduce(|one, other| one + other)
}

/// The maximum of a metric over all pools; `None` if the page has none.
pub(super) fn max(samples: &[MetricSample<'_>], name: &str) -> Option<f64> {
    let found = samples.iter().filter(|sample| sample.name == name);
    found.map(|sample| sample.value).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name_and_pool() {
        let page = "# HELP a text\n# TYPE a gauge\na{pool=\"default\"} 1.5\na{pool=\"other\"} 2\nab{pool=\"default\"} 7\nb 3\nbad\n";
        let samples = samples(page);
        assert_eq!(of_pool(&samples, "a", "default"), Some(1.5));
        assert_eq!(of_pool(&samples, "a", "other"), Some(2.0));
        assert_eq!(of_pool(&samples, "a", "third"), None);
        assert_eq!(sum(&samples, "a"), Some(3.5));
        assert_eq!(max(&samples, "a"), Some(2.0));
        assert_eq!(max(&samples, "c"), None);
        assert_eq!(sum(&samples, "b"), Some(3.0));
        assert_eq!(sum(&samples, "c"), None);
    }
}
