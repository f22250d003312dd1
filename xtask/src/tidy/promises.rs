//! The document of promises names tests that exist.

use super::Finding;
use super::tree::Tree;

const DOCUMENT: &str = "docs/guarantees.md";
const SUITES: &str = "tests/tests";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(document) = tree.get(DOCUMENT) else {
        return vec![Finding::new(DOCUMENT, 1, "there is no such file")];
    };
    let named = document
        .lines()
        .flat_map(|(line, text)| named(text).map(move |test| (line, test)));
    named
        .filter(|(_, test)| !exists(tree, test))
        .map(|(line, test)| Finding::new(DOCUMENT, line, format!("there is no test {test}")))
        .collect()
}

/// What a line names: texts between backticks that have a file and a test.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|text| text.contains(".rs::"))
}

fn exists(tree: &Tree, test: &str) -> bool {
    let Some((file, name)) = test.split_once("::") else {
        return false;
    };
    let path = match file.starts_with("crates/") {
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
    fn a_test_that_is_gone_is_found() {
        let files = [
            (
                DOCUMENT,
                "`store/a.rs::kept`, `store/a.rs::gone`\n`crates/x/tests/b.rs::kept` `b.rs`",
            ),
            ("tests/tests/store/a.rs", "fn kept() {}"),
            ("crates/x/tests/b.rs", "async fn kept() {}"),
        ];
        let findings = check(&Tree::of(&files));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].message.contains("store/a.rs::gone"));
    }
}
