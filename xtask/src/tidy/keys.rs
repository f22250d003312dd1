//! Key names are made in one place.

use super::Finding;
use super::tree::Tree;

const PLACE: &str = "crates/core/src/keys.rs";
/// A string literal that begins like a key. Written in two parts, so that this file keeps the rule.
const LITERAL: &str = concat!("\"t", "g:");

/// Tests may spell keys out: they pin them.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree.with_extension("rs").filter(|file| {
        file.path != PLACE && !file.is_test() && !file.path.starts_with("crates/testkit/")
    });
    let mut findings = Vec::new();
    for file in files {
        let code = file
            .lines()
            .take_while(|(_, line)| !line.trim_start().starts_with("#[cfg(test)]"));
        for (number, _) in code.filter(|(_, line)| line.contains(LITERAL)) {
            findings.push(Finding::new(
                &file.path,
                number,
                format!("Redis key names are made in {PLACE} only"),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_outside_their_place_are_found() {
        let line = format!("let key = {LITERAL}x\";\n");
        let in_tests = format!("fn code() {{}}\n#[cfg(test)]\nmod tests {{ {line} }}\n");
        let tree = Tree::of(&[
            (PLACE, &line),
            ("crates/store/src/lib.rs", &format!("\n{line}")),
            ("crates/store/src/ok.rs", &in_tests),
            ("tests/keys.rs", &line),
        ]);
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].to_string(),
            format!("crates/store/src/lib.rs:2: Redis key names are made in {PLACE} only")
        );
    }
}
