//! A strict reader of the text format of Prometheus: it rejects what a scraper may fail on.

use std::collections::{BTreeMap, BTreeSet};

/// Names and values of labels.
pub(crate) type Labels = BTreeMap<String, String>;

/// A metric with all its samples.
#[derive(Debug, Default)]
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) help: String,
    pub(crate) samples: Vec<Sample>,
}

/// A line with a value.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: Labels,
    pub(crate) value: f64,
}

/// Reads a page.
///
/// # Panics
/// If the page violates the format.
pub(crate) fn parse(text: &str) -> Vec<Family> {
    assert!(text.ends_with('\n'), "the last line ends with a line feed");
    let mut families: Vec<Family> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            families.push(Family {
                name: name.to_owned(),
                help: help.to_owned(),
                ..Family::default()
            });
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let family = families.last_mut().filter(|family| family.name == name);
            let family = family.unwrap_or_else(|| panic!("no help before: {line}"));
            assert!(family.kind.is_empty(), "twice: {line}");
            assert!(family.samples.is_empty(), "after samples: {line}");
            family.kind = kind.to_owned();
        } else {
            assert!(!line.starts_with('#'), "{line}");
            let sample = sample(line);
            let family = families.last_mut().filter(|family| family.owns(&sample));
            family
                .unwrap_or_else(|| panic!("of no family: {line}"))
                .samples
                .push(sample);
        }
    }
    let names: BTreeSet<&str> = families.iter().map(|family| family.name.as_str()).collect();
    assert_eq!(names.len(), families.len(), "each family once");
    families.iter().for_each(Family::check);
    families
}

fn sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).unwrap();
    let (name, rest) = line.split_at(end);
    assert!(is_name(name, true), "{line}");
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest, line),
        None => (Labels::new(), rest),
    };
    let value = value.strip_prefix(' ').unwrap();
    Sample {
        name: name.to_owned(),
        labels,
        value: value.parse().unwrap_or_else(|_| panic!("{line}")),
    }
}

/// Labels up to the closing brace, and what follows it.
fn labels<'a>(mut rest: &'a str, line: &str) -> (Labels, &'a str) {
    let mut labels = Labels::new();
    loop {
        let (name, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
        assert!(is_name(name, false), "{line}");
        let (value, after) = quoted(after, line);
        assert!(labels.insert(name.to_owned(), value).is_none(), "{line}");
        if let Some(after) = after.strip_prefix('}') {
            return (labels, after);
        }
        rest = after.strip_prefix(',').unwrap_or_else(|| panic!("{line}"));
    }
}

fn quoted<'a>(text: &'a str, line: &str) -> (String, &'a str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped @ ('\\' | '"'))) => value.push(escaped),
                other => panic!("{other:?} in {line}"),
            },
            plain => value.push(plain),
        }
    }
    panic!("no closing quote: {line}");
}

fn is_name(name: &str, may_have_colon: bool) -> bool {
    let fits =
        |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || (may_have_colon && byte == b':');
    !name.is_empty() && !name.as_bytes()[0].is_ascii_digit() && name.bytes().all(fits)
}

impl Family {
    fn owns(&self, sample: &Sample) -> bool {
        let suffix = sample.name.strip_prefix(&self.name);
        match self.kind.as_str() {
            "counter" | "gauge" => suffix == Some("") && !sample.labels.contains_key("le"),
            "histogram" => match suffix {
                Some("_bucket") => sample.labels.contains_key("le"),
                Some("_sum" | "_count") => !sample.labels.contains_key("le"),
                _ => false,
            },
            other => panic!("{} is of type {other:?}", self.name),
        }
    }

    /// The names of its labels, over all samples.
    pub(crate) fn label_names(&self) -> BTreeSet<&str> {
        let names = self.samples.iter().flat_map(|sample| sample.labels.keys());
        names
            .map(String::as_str)
            .filter(|name| *name != "le")
            .collect()
    }

    fn check(&self) {
        let name = &self.name;
        assert!(!self.help.is_empty(), "{name} has no help");
        assert!(!self.samples.is_empty(), "{name} has no sample");
        let mut seen = BTreeSet::new();
        for sample in &self.samples {
            assert!(
                seen.insert((&sample.name, &sample.labels)),
                "{sample:?} comes twice"
            );
            let names = sample.labels.keys().filter(|name| *name != "le");
            let names: BTreeSet<&str> = names.map(String::as_str).collect();
            assert_eq!(names, self.label_names(), "{sample:?} lacks labels");
            if self.kind != "gauge" {
                assert!(sample.value >= 0.0, "{sample:?}");
            }
        }
        if self.kind == "histogram" {
            self.check_histograms();
        }
    }

    fn check_histograms(&self) {
        let mut buckets: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
        for sample in self
            .samples
            .iter()
            .filter(|sample| sample.name.ends_with("_bucket"))
        {
            let mut labels = sample.labels.clone();
            let bound = labels.remove("le").unwrap().parse().unwrap();
            buckets
                .entry(labels)
                .or_default()
                .push((bound, sample.value));
        }
        for (labels, buckets) in &buckets {
            let rises = |pair: &[(f64, f64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
            assert!(
                buckets.windows(2).all(rises),
                "{} {labels:?}: {buckets:?}",
                self.name
            );
            let (last, all) = *buckets.last().unwrap();
            assert_eq!(last, f64::INFINITY, "{} {labels:?}", self.name);
            assert_eq!(
                self.value("_count", labels),
                Some(all),
                "{} {labels:?}",
                self.name
            );
            assert!(
                self.value("_sum", labels).is_some(),
                "{} {labels:?}",
                self.name
            );
        }
    }

    fn value(&self, suffix: &str, labels: &Labels) -> Option<f64> {
        let name = format!("{}{suffix}", self.name);
        let mut samples = self.samples.iter();
        let found = samples.find(|sample| sample.name == name && sample.labels == *labels)?;
        Some(found.value)
    }
}

/// The values of a metric by the values of some of its labels.
pub(crate) fn by(families: &[Family], name: &str, labels: &[&str]) -> BTreeMap<Vec<String>, f64> {
    let samples = families.iter().flat_map(|family| &family.samples);
    let mut values = BTreeMap::new();
    for sample in samples.filter(|sample| sample.name == name) {
        let key = labels.iter().map(|label| sample.labels[*label].clone());
        *values.entry(key.collect()).or_default() += sample.value;
    }
    values
}

#[test]
#[should_panic(expected = "comes twice")]
fn a_duplicate_sample_is_found() {
    parse("# HELP a b\n# TYPE a counter\na{x=\"1\"} 1\na{x=\"1\"} 2\n");
}

#[test]
#[should_panic(expected = "of no family")]
fn a_sample_of_another_family_is_found() {
    parse("# HELP a b\n# TYPE a counter\na 1\nb 2\n");
}

#[test]
#[should_panic(expected = "lacks labels")]
fn a_sample_without_its_labels_is_found() {
    parse("# HELP a b\n# TYPE a counter\na{x=\"1\"} 1\na{y=\"1\"} 2\n");
}

#[test]
fn escapes_are_read() {
    let families = parse("# HELP a b\n# TYPE a gauge\na{x=\"q\\\"\\\\\\n}\",y=\"\"} -1.5\n");
    assert_eq!(families[0].samples[0].labels["x"], "q\"\\\n}");
    assert_eq!(by(&families, "a", &["y"])[&vec![String::new()]], -1.5);
}
