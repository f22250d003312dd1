//! Where dependencies come from and under which terms. deny.toml says the same to cargo-deny; this check needs no
//! further program.

use serde_json::Value;

use super::{Finding, spdx};

/// Licences that ask for no more than a notice. The list in deny.toml is the same one: a test compares them.
const ALLOWED: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

const PLACE: &str = "Cargo.lock";

/// Looks at what cargo says about every package of the workspace and its dependencies.
pub(crate) fn check(metadata: &Value) -> Vec<Finding> {
    let none = Vec::new();
    let members = metadata["workspace_members"].as_array().unwrap_or(&none);
    let packages = metadata["packages"].as_array().unwrap_or(&none);
    let foreign = packages
        .iter()
        .filter(|package| !members.contains(&package["id"]));
    foreign.flat_map(check_package).collect()
}

fn check_package(package: &Value) -> Vec<Finding> {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    let name = format!("{} {}", text("name"), text("version"));
    let mut findings = Vec::new();
    if !text("source").starts_with("registry+") {
        findings.push(Finding::new(
            PLACE,
            1,
            format!("{name} comes neither from the registry nor from this workspace"),
        ));
    }
    let licence = text("license");
    if !spdx::is_acceptable(licence, &|name| ALLOWED.contains(&name)) {
        let licence = if licence.is_empty() {
            "no licence"
        } else {
            licence
        };
        findings.push(Finding::new(
            PLACE,
            1,
            format!("{name} is under terms that are not allowed: {licence}"),
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn foreign_sources_and_terms_are_found() {
        let registry = "registry+https://example.org/index";
        let metadata = json!({
            "workspace_members": ["ours"],
            "packages": [
                {"id": "ours", "name": "ours", "version": "1.0.0", "license": null, "source": null},
                {"id": "a", "name": "a", "version": "1.0.0", "license": "MIT OR GPL-3.0", "source": registry},
                {"id": "b", "name": "b", "version": "2.0.0", "license": "GPL-3.0", "source": registry},
                {"id": "c", "name": "c", "version": "3.0.0", "license": "MIT", "source": "git+https://example.org/c"},
                {"id": "d", "name": "d", "version": "4.0.0", "license": null, "source": registry},
            ],
        });
        let found: Vec<_> = check(&metadata)
            .into_iter()
            .map(|finding| finding.message)
            .collect();
        assert_eq!(
            found,
            [
                "b 2.0.0 is under terms that are not allowed: GPL-3.0",
                "c 3.0.0 comes neither from the registry nor from this workspace",
                "d 4.0.0 is under terms that are not allowed: no licence",
            ]
        );
    }

    #[test]
    fn the_list_is_the_one_of_cargo_deny() {
        let rules: toml::Table = include_str!("../../../deny.toml").parse().unwrap();
        let listed: Vec<_> = rules["licenses"]["allow"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        assert_eq!(listed, ALLOWED);
    }
}
