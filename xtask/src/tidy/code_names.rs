//! The code that documents and comments name: each `file.rs` exists, and a name directly behind it is in that file.
//! Each name in a comment of Rust code is in the code.

use std::collections::HashSet;

use super::finding::TidyFinding;
use super::tree::{SourceFile, SourceTree};

pub(crate) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for page in tree.with_extension("md") {
        for (number, line) in page.lines() {
            let messages = check_files(tree, line).into_iter();
            findings.extend(messages.map(|it| TidyFinding::new(&page.path, number, it)));
        }
    }
    let words = words_of_code(tree);
    for file in tree.with_extension("rs") {
        for (number, line) in file.lines() {
            let Some(comment) = comment(line) else {
                continue;
            };
            let mut messages = check_files(tree, comment);
            messages.extend(check_names(&words, comment));
            let messages = messages.into_iter();
            findings.extend(messages.map(|it| TidyFinding::new(&file.path, number, it)));
        }
    }
    findings
}

/// The text of a line that is a comment of Rust code.
fn comment(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//")
}

/// The parts of a line in backticks, each with the part behind it.
fn quoted(line: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let parts: Vec<&str> = line.split('`').collect();
    let behind = |position: usize| match parts.get(position + 1..) {
        Some([" ", name, ..]) => Some(*name),
        _ => None,
    };
    // Code is in the parts with odd positions.
    let quoted = parts.iter().enumerate().skip(1).step_by(2);
    let quoted = quoted.map(|(position, &part)| (part, behind(position)));
    quoted.collect::<Vec<_>>().into_iter()
}

fn check_files(tree: &SourceTree, line: &str) -> Vec<String> {
    let mut messages = Vec::new();
    for (path, name) in quoted(line).filter(|(part, _)| is_path(part)) {
        let files = named(tree, path);
        let lacks =
            |name: &&str| is_name(name) && !files.iter().any(|it| has_words(&it.text, name));
        if files.is_empty() {
            messages.push(format!("there is no file {path}"));
        } else if let Some(name) = name.filter(lacks) {
            messages.push(format!("{path} has no {name}"));
        }
    }
    messages
}

/// Names in capitals are not checked, since most belong to other programs, nor are forms such as `host:port`.
fn check_names(words: &HashSet<&str>, comment: &str) -> Vec<String> {
    let is_unknown = |word: &str| {
        let is_checked = word.bytes().any(|byte| byte.is_ascii_lowercase());
        is_checked && !word.contains(':') && !words.contains(word)
    };
    let names = quoted(comment).map(|(name, _)| name);
    let names = names.filter(|name| is_name(name) && name.split("::").any(is_unknown));
    names.map(|name| format!("no code has {name}")).collect()
}

/// The words of all files but documents and comments, and of their paths.
fn words_of_code(tree: &SourceTree) -> HashSet<&str> {
    let is_end = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
    let mut words = HashSet::new();
    for file in tree.files.iter().filter(|file| file.extension() != "md") {
        words.extend(file.path.split(is_end));
        let is_rust = file.extension() == "rs";
        let lines = file.text.lines();
        let lines = lines.filter(|line| !is_rust || comment(line).is_none());
        words.extend(lines.flat_map(|line| line.split(is_end)));
    }
    words
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

    #[test]
    fn names_in_comments_that_no_code_has_are_found() {
        let code = "//! `keeper` holds, `list` and `other.rs` hold, so does `List::pop`.\n\
                    struct List; // `gone`\n\
                    /// Pops by `LPOP`, see `pop`.\n\
                    fn pop() {}";
        let tree = SourceTree::from_files(&[("crates/a/list.rs", code)]);
        let found: Vec<String> = check(&tree).iter().map(TidyFinding::to_string).collect();
        let expected = [
            "crates/a/list.rs:1: there is no file other.rs",
            "crates/a/list.rs:1: no code has keeper",
        ];
        assert_eq!(found, expected);
    }
}
