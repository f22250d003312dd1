//! Every package inherits the lints of the workspace.

use super::finding::TidyFinding;
use super::tree::SourceTree;

pub(crate) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let shares_lints = |text: &str| {
        let manifest: toml::Table = text.parse().unwrap_or_default();
        manifest
            .get("lints")
            .and_then(|lints| lints.get("workspace"))
            .and_then(toml::Value::as_bool)
            == Some(true)
    };
    let without = tree
        .manifests()
        .filter(|(_, file)| !shares_lints(&file.text));
    without
        .map(|(_, file)| TidyFinding::new(&file.path, 1, "`[lints]` `workspace = true` is missing"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_without_the_shared_lints_is_found() {
        let tree = SourceTree::from_files(&[
            ("Cargo.toml", "[workspace]"),
            ("crates/a/Cargo.toml", "[lints]\nworkspace = true\n"),
            ("crates/b/Cargo.toml", "[package]\nname = \"b\"\n"),
        ]);
        let found: Vec<_> = check(&tree)
            .into_iter()
            .map(|finding| finding.path)
            .collect();
        assert_eq!(found, ["crates/b/Cargo.toml"]);
    }
}
