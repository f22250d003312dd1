//! Allowed dependencies between packages, as in docs/ARCHITECTURE.md.

use super::finding::TidyFinding;
use super::tree::{SourceFile, SourceTree};

const OURS: &str = "tidegate-";
/// The package in `crates/client`.
const CLIENT: &str = "tidegate";

/// A package's folder, and the packages of the workspace that it may use. Tests of any package may
/// also use the test kit and brokers.
const LAYERS: [(&str, &[&str]); 24] = [
    ("crates/http-pool", &[]),
    ("crates/client", &["core", "http-pool"]),
    (
        "crates/cli",
        &[
            "client",
            "core",
            "http-pool",
            "local-deployment",
            "stop-signals",
        ],
    ),
    ("crates/core", &[]),
    ("tests/model", &["core"]),
    ("crates/cold", &["core", "http-pool"]),
    ("crates/store", &["cold", "core"]),
    (
        "crates/daemon",
        &["core", "http-pool", "stop-signals", "store"],
    ),
    ("crates/stop-signals", &[]),
    ("crates/engine", &["core", "daemon", "store"]),
    ("crates/api", &["core", "daemon", "engine", "store"]),
    ("crates/pumpd", &["cold", "core", "daemon", "store"]),
    ("crates/wheel", &[]),
    ("tools/loadgen", &["core", "local-redis", "store"]),
    ("crates/relayd", &["client", "core", "daemon", "http-pool"]),
    ("tools/local-program", &[]),
    ("tools/local-redis", &["local-program"]),
    (
        "tools/local-deployment",
        &["local-program", "local-redis", "stop-signals"],
    ),
    ("tools/local-broker", &["local-program"]),
    ("tools/faults", &["core", "testkit"]),
    (
        "tools/testkit",
        &["core", "local-program", "local-redis", "store"],
    ),
    (
        "tests",
        &[
            "api",
            "cold",
            "core",
            "local-program",
            "local-redis",
            "pumpd",
            "daemon",
            "store",
            "testkit",
        ],
    ),
    ("fuzz", &["api", "core"]),
    (
        "xtask",
        &["local-broker", "local-deployment", "local-redis"],
    ),
];
const FOR_TESTS: [&str; 2] = ["local-broker", "testkit"];

/// An external dependency, the folders that may have it, and why others may not.
const RESERVED: [(&str, &[&str], &str); 1] = [(
    "redis",
    &["crates/store", "crates/wheel", "tools/testkit", "tests"],
    "only the store speaks to Redis, and the wheel for programs without a server",
)];
/// Dependencies that the core must not have, since it does no I/O.
const NOT_IN_CORE: [&str; 4] = ["axum", "hyper", "redis", "tokio"];
/// Dependencies that the engine must not have, since only front doors handle HTTP.
const NOT_IN_ENGINE: [&str; 3] = ["axum", "http", "hyper"];

pub(crate) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    tree.manifests()
        .flat_map(|(folder, file)| check_manifest(folder, file))
        .collect()
}

fn check_manifest(folder: &str, file: &SourceFile) -> Vec<TidyFinding> {
    let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == folder) else {
        return vec![TidyFinding::new(
            &file.path,
            1,
            "this package is missing in xtask/src/tidy/layers.rs",
        )];
    };
    let Ok(manifest) = file.text.parse::<toml::Table>() else {
        return vec![TidyFinding::new(&file.path, 1, "not a valid manifest")];
    };
    let mut findings = Vec::new();
    for (dependency, is_for_tests) in dependencies(&manifest) {
        if let Some(message) = check_dependency(folder, allowed, &dependency, is_for_tests) {
            findings.push(TidyFinding::new(
                &file.path,
                line_of(file, &dependency),
                message,
            ));
        }
    }
    findings
}

fn check_dependency(
    folder: &str,
    allowed: &[&str],
    dependency: &str,
    is_for_tests: bool,
) -> Option<String> {
    let of_client = (dependency == CLIENT).then_some("client");
    if let Some(ours) = dependency.strip_prefix(OURS).or(of_client) {
        // A package may switch on its own features for its tests.
        let is_itself = folder.rsplit('/').next() == Some(ours);
        let may =
            allowed.contains(&ours) || (is_for_tests && (FOR_TESTS.contains(&ours) || is_itself));
        return (!may)
            .then(|| format!("{folder} may not use {dependency}; see docs/ARCHITECTURE.md"));
    }
    if folder == "crates/core" && NOT_IN_CORE.contains(&dependency) {
        return Some(format!("the core does no I/O and may not use {dependency}"));
    }
    if folder == "crates/engine" && NOT_IN_ENGINE.contains(&dependency) {
        return Some(format!(
            "the engine does no HTTP and may not use {dependency}"
        ));
    }
    let (_, _, reason) = RESERVED
        .iter()
        .find(|(name, folders, _)| *name == dependency && !folders.contains(&folder))?;
    Some(format!("{folder} may not use {dependency}: {reason}"))
}

/// Returns the dependencies, and whether only tests use them. Renamed dependencies are listed by
/// their package names.
fn dependencies(manifest: &toml::Table) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let targets = manifest
        .get("target")
        .and_then(toml::Value::as_table)
        .into_iter()
        .flat_map(toml::Table::values);
    let tables = std::iter::once(manifest).chain(targets.filter_map(toml::Value::as_table));
    for table in tables {
        for (section, is_for_tests) in [
            ("dependencies", false),
            ("build-dependencies", false),
            ("dev-dependencies", true),
        ] {
            let names = table.get(section).and_then(toml::Value::as_table);
            for (name, value) in names.into_iter().flatten() {
                let real = value
                    .get("package")
                    .and_then(toml::Value::as_str)
                    .unwrap_or(name);
                found.push((real.to_owned(), is_for_tests));
            }
        }
    }
    found
}

fn line_of(file: &SourceFile, dependency: &str) -> usize {
    let names = |line: &str| {
        line.strip_prefix(dependency)
            .is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    };
    file.lines()
        .find(|(_, line)| names(line))
        .map_or(1, |(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&SourceTree::from_files(&[(path, text)]))
            .iter()
            .map(TidyFinding::to_string)
            .collect()
    }

    #[test]
    fn a_dependency_between_wrong_layers_is_found() {
        let text = "[dependencies]\nserde = \"1\"\ntidegate-core.workspace = true\ntidegate-api.workspace = true\n";
        assert_eq!(
            found("crates/store/Cargo.toml", text),
            [
                "crates/store/Cargo.toml:4: crates/store may not use tidegate-api; see docs/ARCHITECTURE.md"
            ]
        );
    }

    #[test]
    fn tests_may_use_the_test_kit_and_code_may_not() {
        let text = "[dev-dependencies]\ntidegate-testkit.workspace = true\n";
        assert!(found("crates/api/Cargo.toml", text).is_empty());
        assert_eq!(
            found("crates/api/Cargo.toml", &text.replace("dev-", "")).len(),
            1
        );
    }

    #[test]
    fn redis_is_only_for_the_store_and_the_core_does_no_io() {
        let redis = "[dependencies]\nredis.workspace = true\n";
        assert!(found("crates/store/Cargo.toml", redis).is_empty());
        assert!(
            found("crates/api/Cargo.toml", redis)[0].contains("only the store speaks to Redis")
        );
        let tokio = "[target.'cfg(unix)'.dependencies]\nruntime = { package = \"tokio\", version = \"1\" }\n";
        assert!(found("crates/core/Cargo.toml", tokio)[0].ends_with("may not use tokio"));
    }

    #[test]
    fn the_engine_does_no_http() {
        let axum = "[dependencies]\naxum.workspace = true\n";
        assert!(found("crates/api/Cargo.toml", axum).is_empty());
        assert!(found("crates/engine/Cargo.toml", axum)[0].ends_with("may not use axum"));
    }

    #[test]
    fn a_package_without_an_entry_is_found() {
        assert!(found("crates/new/Cargo.toml", "")[0].contains("is missing in"));
    }
}
