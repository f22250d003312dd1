//! The tests that docs/guarantees.md names exist.

use super::finding::TidyFinding;
use super::tree::SourceTree;

const DOCUMENT: &str = "docs/guarantees.md";
const SUITES: &str = "tests/tests";

pub(crate) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let Some(document) = tree.get(DOCUMENT) else {
        return vec![TidyFinding::new(DOCUMENT, 1, "file is missing")];
    };
    let named = document
        .lines()
        .flat_map(|(line, text)| tests_in(text).map(move |test| (line, test)));
    named
        .filter(|(_, test)| !exists(tree, test))
        .map(|(line, test)| TidyFinding::new(DOCUMENT, line, format!("no test {test}")))
        .collect()
}

/// Returns the tests that a line names: texts in backticks of the form `FILE.rs::TEST`.
fn tests_in(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|text| text.contains(".rs::"))
}

fn exists(tree: &SourceTree, test: &str) -> bool {
    let Some((file, name)) = test.split_once("::") else {
        return false;
    };
    let path = match file.starts_with("crates/") || file.starts_with("tests/") {
        true => file.to_owned(),
        false => format!("{SUITES}/{file}"),
    };
    let definition = format!("fn {name}(");
    tree.get(&path)
        .is_some_and(|file| file.text.contains(&definition))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_test_is_found() {
        let files = [
            (
                DOCUMENT,
                "`store/a.rs::kept`, `store/a.rs::gone`\n`crates/x/tests/b.rs::kept` `b.rs`",
            ),
            ("tests/tests/store/a.rs", "fn kept() {}"),
            ("crates/x/tests/b.rs", "async fn kept() {}"),
        ];
        let findings = check(&SourceTree::from_files(&files));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].message.contains("store/a.rs::gone"));
    }
}
