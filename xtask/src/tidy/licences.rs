//! Sources and licences of dependencies, by the rules in deny.toml. This check needs no further program, as
//! `cargo deny` does.

use std::sync::LazyLock;

use serde_json::Value;
use spdx::{Expression, LicenseReq, ParseMode};

use super::finding::TidyFinding;

/// The allowed licences.
static ALLOWED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let rules: Result<toml::Table, _> = include_str!("../../../deny.toml").parse();
    let rules = rules.unwrap_or_default();
    let listed = rules.get("licenses").and_then(|it| it.get("allow"));
    let listed = listed.and_then(toml::Value::as_array).into_iter().flatten();
    listed
        .filter_map(|name| Some(name.as_str()?.to_owned()))
        .collect()
});

const PLACE: &str = "Cargo.lock";

/// Checks the output of `cargo metadata`.
pub(crate) fn check(metadata: &Value) -> Vec<TidyFinding> {
    let none = Vec::new();
    let members = metadata["workspace_members"].as_array().unwrap_or(&none);
    let packages = metadata["packages"].as_array().unwrap_or(&none);
    let foreign = packages
        .iter()
        .filter(|package| !members.contains(&package["id"]));
    foreign.flat_map(check_package).collect()
}

fn check_package(package: &Value) -> Vec<TidyFinding> {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    let name = format!("{} {}", text("name"), text("version"));
    let mut findings = Vec::new();
    if !text("source").starts_with("registry+") {
        findings.push(TidyFinding::new(
            PLACE,
            1,
            format!("{name} is neither from the registry nor from this workspace"),
        ));
    }
    let licence = text("license");
    if !is_allowed(licence) {
        let licence = if licence.is_empty() { "none" } else { licence };
        findings.push(TidyFinding::new(
            PLACE,
            1,
            format!("{name} has a licence that is not allowed: {licence}"),
        ));
    }
    findings
}

/// Whether the allowed licences satisfy an SPDX licence expression. An invalid expression is not satisfied.
fn is_allowed(licence: &str) -> bool {
    // Older packages write `MIT/Apache-2.0`.
    let mode = ParseMode {
        allow_slash_as_or_operator: true,
        ..ParseMode::STRICT
    };
    let allowed = |required: &LicenseReq| ALLOWED.contains(&required.to_string());
    Expression::parse_mode(licence, mode).is_ok_and(|expression| expression.evaluate(allowed))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn other_sources_and_licences_are_found() {
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
                "b 2.0.0 has a licence that is not allowed: GPL-3.0",
                "c 3.0.0 is neither from the registry nor from this workspace",
                "d 4.0.0 has a licence that is not allowed: none",
            ]
        );
    }

    #[test]
    fn expressions_are_evaluated() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0-only",
            "GPL-3.0-only/MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "MIT WITH LLVM-exception",
            "(MIT",
            "MIT MIT",
        ] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }
}
