//! The rules of `promtool check metrics`, for the names that Tidegate chose. The names of lmstfy are exempt, since
//! dashboards use them.

use crate::exposition::Family;

/// The prefix of the exempt names.
const OF_LMSTFY: &str = "infra_lmstfy_";

const OTHER_UNITS: [&str; 16] = [
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "minutes",
    "hours",
    "days",
    "weeks",
    "kilobytes",
    "megabytes",
    "gigabytes",
    "kibibytes",
    "mebibytes",
    "bits",
    "fahrenheit",
    "kelvin",
    "percent",
];
const ABBREVIATIONS: [&str; 13] = [
    "s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h",
];
const TYPES: [&str; 4] = ["counter", "gauge", "histogram", "summary"];

/// The violations of all families, one line each.
pub(crate) fn problems(families: &[Family]) -> Vec<String> {
    let ours = families
        .iter()
        .filter(|family| !family.name.starts_with(OF_LMSTFY));
    let problems = ours.flat_map(|family| {
        let found = problems_of(family).into_iter();
        found.map(|problem| format!("{} {problem}", family.name))
    });
    problems.collect()
}

fn problems_of(family: &Family) -> Vec<&'static str> {
    let name = family.name.as_str();
    let words: Vec<&str> = name.split('_').collect();
    let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
    let is_counter = family.kind == "counter";
    let is_histogram = family.kind == "histogram";
    let ends_with = |suffix: &str| name.ends_with(suffix);
    let rules = [
        (family.help.is_empty(), "has no help text"),
        (
            is_counter && !ends_with("_total"),
            "is a counter and does not end in _total",
        ),
        (
            !is_counter && ends_with("_total"),
            "is no counter and ends in _total",
        ),
        (
            ends_with("_bucket") || ends_with("_count") || ends_with("_sum"),
            "ends as the parts of histograms do",
        ),
        (
            !is_histogram
                && family
                    .samples
                    .iter()
                    .any(|one| one.labels.contains_key("le")),
            "has the label of histograms",
        ),
        (has(&TYPES), "has its type in its name"),
        (name.contains(':'), "has a colon"),
        (
            name.bytes().any(|byte| byte.is_ascii_uppercase()),
            "is in camel case",
        ),
        (has(&OTHER_UNITS), "is not in base units"),
        (has(&ABBREVIATIONS), "has an abbreviated unit"),
        (
            !name.starts_with("tidegate_"),
            "does not begin with tidegate_",
        ),
    ];
    let broken = rules.into_iter().filter(|(is_broken, _)| *is_broken);
    broken.map(|(_, problem)| problem).collect()
}

#[test]
fn invalid_metric_names_are_found() {
    let problems = |name: &str, kind: &str| {
        problems_of(&Family {
            name: name.to_owned(),
            kind: kind.to_owned(),
            help: "help".to_owned(),
            samples: vec![],
        })
    };
    assert!(problems("tidegate_jobs_total", "counter").is_empty());
    assert!(problems("tidegate_lateness_seconds", "histogram").is_empty());
    for (name, kind) in [
        ("tidegate_jobs", "counter"),
        ("tidegate_jobs_total", "gauge"),
        ("tidegate_jobs_count", "gauge"),
        ("tidegate_jobs_gauge", "gauge"),
        ("tidegate_queue:jobs", "gauge"),
        ("tidegate_queueJobs", "gauge"),
        ("tidegate_wait_ms", "gauge"),
        ("tidegate_wait_milliseconds", "gauge"),
        ("jobs", "gauge"),
    ] {
        assert_eq!(problems(name, kind).len(), 1, "{name}");
    }
}
