//! Redis key names are built in one file.

use super::finding::TidyFinding;
use super::tree::SourceTree;

const PLACE: &str = "crates/core/src/keys.rs";
/// The begin of a string literal with a key. Written in two parts, so that this file does not
/// violate the rule.
const LITERAL: &str = concat!("\"t", "g:");

/// Tests may contain literal keys, since they pin the layout.
pub(crate) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let files = tree.with_extension("rs").filter(|file| {
        file.path != PLACE && !file.is_test() && !file.path.starts_with("tools/testkit/")
    });
    let mut findings = Vec::new();
    for file in files {
        let code = file
            .lines()
            .take_while(|(_, line)| !line.trim_start().starts_with("#[cfg(test)]"));
        for (number, _) in code.filter(|(_, line)| line.contains(LITERAL)) {
            findings.push(TidyFinding::new(
                &file.path,
                number,
                format!("Redis key names are built only in {PLACE}"),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_other_files_are_found() {
        let line = format!("let key = {LITERAL}x\";\n");
        let in_tests = format!("fn code() {{}}\n#[cfg(test)]\nmod tests {{ {line} }}\n");
        let tree = SourceTree::from_files(&[
            (PLACE, &line),
            ("crates/store/src/lib.rs", &format!("\n{line}")),
            ("crates/store/src/ok.rs", &in_tests),
            ("tests/keys.rs", &line),
        ]);
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].to_string(),
            format!("crates/store/src/lib.rs:2: Redis key names are built only in {PLACE}")
        );
    }
}
