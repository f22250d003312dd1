//! The architecture document names every package, and the README shows the first commands.

use super::finding::TidyFinding;
use super::tree::SourceTree;

const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
const README: &str = "README.md";
/// Commands that the beginning of the README must show.
const FIRST_COMMANDS: [&str; 2] = ["cargo xtask dev", "cargo xtask test"];

pub(crate) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let mut findings = check_architecture(tree);
    findings.extend(check_readme(tree));
    findings
}

fn check_architecture(tree: &SourceTree) -> Vec<TidyFinding> {
    let Some(file) = tree.get(ARCHITECTURE) else {
        return vec![TidyFinding::new(ARCHITECTURE, 1, "file is missing")];
    };
    let names = |folder: &str| {
        let short = folder.rsplit('/').next().unwrap_or(folder);
        [
            folder.to_owned(),
            format!("tidegate-{short}"),
            format!("`{short}`"),
        ]
    };
    let is_named = |folder: &str| names(folder).iter().any(|name| file.text.contains(name));
    let missing = tree
        .manifests()
        .map(|(folder, _)| folder)
        .filter(|folder| !is_named(folder));
    missing
        .map(|folder| {
            TidyFinding::new(
                ARCHITECTURE,
                1,
                format!("the package in {folder} is not mentioned"),
            )
        })
        .collect()
}

/// The beginning of the README ends with its first section.
fn check_readme(tree: &SourceTree) -> Vec<TidyFinding> {
    let Some(file) = tree.get(README) else {
        return vec![TidyFinding::new(README, 1, "file is missing")];
    };
    let end = file
        .lines()
        .filter(|(_, line)| line.starts_with("## "))
        .nth(1)
        .map_or(usize::MAX, |(number, _)| number);
    let shows = |command: &str| {
        file.lines()
            .take_while(|(number, _)| *number < end)
            .any(|(_, line)| line.contains(command))
    };
    let missing = FIRST_COMMANDS.iter().filter(|command| !shows(command));
    missing
        .map(|command| {
            TidyFinding::new(
                README,
                1,
                format!("the text up to the end of the first section does not show `{command}`"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_the_document_does_not_mention_is_found() {
        let files = [
            ("crates/core/Cargo.toml", ""),
            ("crates/api/Cargo.toml", ""),
            ("Cargo.toml", ""),
            (ARCHITECTURE, "`core` holds words; tidegate-api answers"),
            (README, "`cargo xtask dev`\n`cargo xtask test`"),
        ];
        assert_eq!(check(&SourceTree::from_files(&files)), []);
        let mut more = files.to_vec();
        more.push(("crates/store/Cargo.toml", ""));
        let found = check(&SourceTree::from_files(&more));
        assert_eq!(
            found[0].message,
            "the package in crates/store is not mentioned"
        );
    }

    #[test]
    fn a_readme_that_hides_the_commands_is_found() {
        let tree = SourceTree::from_files(&[
            (ARCHITECTURE, ""),
            (
                README,
                "# T\n## Try\ncargo xtask dev\n## More\ncargo xtask test\n",
            ),
        ]);
        let found: Vec<_> = check(&tree)
            .into_iter()
            .map(|finding| finding.message)
            .collect();
        assert_eq!(
            found,
            ["the text up to the end of the first section does not show `cargo xtask test`"]
        );
    }

    #[test]
    fn missing_documents_are_found() {
        assert_eq!(check(&SourceTree::default()).len(), 2);
    }
}
