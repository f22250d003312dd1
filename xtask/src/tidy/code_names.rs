//! The code that documents name: each `file.rs` exists, and a name directly behind it is in that file.

use super::finding::TidyFinding;
use super::tree::{SourceFile, SourceTree};

pub(crate) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let pages = tree.with_extension("md");
    pages.flat_map(|page| check_page(tree, page)).collect()
}

fn check_page(tree: &SourceTree, page: &SourceFile) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (number, line) in page.lines() {
        // Code is in the parts with odd positions.
        let parts: Vec<&str> = line.split('`').collect();
        for (position, &path) in parts.iter().enumerate().skip(1).step_by(2) {
            if !is_path(path) {
                continue;
            }
            let files = named(tree, path);
            let name = match parts.get(position + 1..) {
                Some([" ", name, ..]) => *name,
                _ => "",
            };
            let message = if files.is_empty() {
                format!("there is no file {path}")
            } else if !is_name(name) || files.iter().any(|file| has_words(&file.text, name)) {
                continue;
            } else {
                format!("{path} has no {name}")
            };
            findings.push(TidyFinding::new(&page.path, number, message));
        }
    }
    findings
}

/// Whether this is a file of code. A name in capitals, as in `verbs/VERB.rs`, stands for any file.
fn is_path(text: &str) -> bool {
    let stem = text.strip_suffix(".rs").or(text.strip_suffix(".lua"));
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    stem.is_some_and(|stem| {
        let name = stem.rsplit('/').next().unwrap_or(stem);
        stem.bytes().all(is_part) && name.bytes().any(|byte| byte.is_ascii_lowercase())
    })
}

fn is_name(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_:".contains(&byte);
    !text.is_empty() && text.bytes().all(is_word)
}

/// The files whose path is this, or ends with it.
fn named<'a>(tree: &'a SourceTree, path: &str) -> Vec<&'a SourceFile> {
    let end = format!("/{path}");
    let is_named = |file: &&SourceFile| file.path == path || file.path.ends_with(&end);
    tree.files.iter().filter(is_named).collect()
}

/// Whether a text has all words of a name such as `Type::function`.
fn has_words(text: &str, name: &str) -> bool {
    let is_end = |byte: u8| !byte.is_ascii_alphanumeric() && byte != b'_';
    let has_word = |word: &str| {
        text.match_indices(word).any(|(begin, _)| {
            let before = begin.checked_sub(1).map(|it| text.as_bytes()[it]);
            let after = text.as_bytes().get(begin + word.len()).copied();
            before.is_none_or(is_end) && after.is_none_or(is_end)
        })
    };
    name.split("::").all(has_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_names_that_do_not_exist_are_found() {
        let page = "`a/list.rs` `List::push` pushes, `list.rs` `List::pop` pops\n\
                    and `other.rs` `x` is `verbs/VERB.rs`; `list.rs` is not `pop`";
        let tree = SourceTree::from_files(&[
            ("docs/page.md", page),
            (
                "crates/a/list.rs",
                "impl List { fn push() {} fn popped() {} }",
            ),
        ]);
        let found: Vec<String> = check(&tree).iter().map(TidyFinding::to_string).collect();
        let expected = [
            "docs/page.md:1: list.rs has no List::pop",
            "docs/page.md:2: there is no file other.rs",
        ];
        assert_eq!(found, expected);
    }
}
