//! The names of metrics in documents, rules and dashboards are those of the programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The document that has all metrics.
const LIST: &str = "docs/metrics.md";
/// Packages whose code has metrics.
const PROGRAMS: [&str; 6] = ["api", "daemon", "engine", "pumpd", "relayd", "store"];
/// Names in these packages that are not of metrics: a cookie, and the crate that reads durations.
const NO_METRICS: [&str; 2] = ["tidegate_form", "tidegate_core::duration"];
/// Most names of lmstfy. The list leaves this out.
const LMSTFY_PREFIX: &str = "infra_lmstfy_redis_";

fn path(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    root.unwrap().join(name)
}

/// The files below a folder whose names end so.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, end));
        } else if path.to_str().is_some_and(|name| name.ends_with(end)) {
            found.push(path);
        }
    }
    found
}

fn is_name(word: &str) -> bool {
    let is_ours = word.starts_with("tidegate_") || word.starts_with("infra_lmstfy_");
    // What ends so is the beginning of names. Paths of Rust and recorded rules have colons.
    is_ours && !word.ends_with('_') && !word.contains(':')
}

/// The names in a text, without the ends that parts of histograms have.
fn names_in(text: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_:".contains(letter);
    let words = text.split(|letter| !is_part(letter));
    let names = words.filter(|word| is_name(word)).map(|word| {
        let ends = ["_bucket", "_count", "_sum"].into_iter();
        let mut short = ends.filter_map(|end| word.strip_suffix(end));
        short.next().unwrap_or(word)
    });
    names.collect()
}

/// The names in the code of the programs: texts that are a name and nothing else.
fn names_of_programs() -> BTreeSet<String> {
    let folders = PROGRAMS.map(|program| path(&format!("crates/{program}/src")));
    let sources = folders.iter().flat_map(|folder| files(folder, ".rs"));
    let mut names = BTreeSet::new();
    for source in sources {
        let text = fs::read_to_string(source).unwrap();
        let is_only_name =
            |text: &&str| names_in(text).contains(text) && !NO_METRICS.contains(text);
        names.extend(text.split('"').filter(is_only_name).map(str::to_owned));
    }
    names
}

#[test]
fn documents_rules_and_dashboards_name_metrics_that_exist() {
    let existing = names_of_programs();
    let documents = files(&path("docs"), ".md");
    let others = ["README.md", "deploy/prometheus/rules.yml"].map(path);
    let dashboards = files(&path("deploy/grafana"), ".json");
    let is_decision = |path: &PathBuf| path.components().any(|it| it.as_os_str() == "decisions");
    let mut unknown = Vec::new();
    // A decision may name what existed when it was made.
    for file in documents
        .iter()
        .filter(|path| !is_decision(path))
        .chain(&others)
        .chain(&dashboards)
    {
        let text = fs::read_to_string(file).unwrap();
        let names = names_in(&text).into_iter();
        let missing = names.filter(|name| !existing.contains(*name));
        unknown.extend(missing.map(|name| format!("{}: {name}", file.display())));
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

#[test]
fn the_list_has_each_metric_of_the_programs() {
    let list = fs::read_to_string(path(LIST)).unwrap();
    let names = names_of_programs();
    assert!(names.len() > 50, "{names:?}");
    let is_listed = |name: &String| {
        let short = name.strip_prefix(LMSTFY_PREFIX).unwrap_or(name);
        [name, short]
            .iter()
            .any(|name| list.contains(&format!("`{name}`")))
    };
    let missing: Vec<_> = names.iter().filter(|name| !is_listed(name)).collect();
    assert!(missing.is_empty(), "{LIST} lacks {missing:?}");
}

#[test]
fn names_are_found_in_texts() {
    let text = "`tidegate_a_total`, pool:tidegate_b:sum tidegate_wheel::Wheel tidegate_ rate(infra_lmstfy_c_ms_bucket[1m])";
    assert_eq!(
        names_in(text),
        BTreeSet::from(["tidegate_a_total", "infra_lmstfy_c_ms"])
    );
}
