//! Text that no file may contain.

use super::finding::TidyFinding;
use super::tree::{SourceFile, SourceTree};

/// Paths of a single machine. Written in parts, so that this file does not violate the rule.
const MACHINE_PATHS: [&str; 2] = [concat!("/", "root/"), concat!("/", "home/")];
/// Words that mark unfinished text.
const UNFINISHED: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("TB", "D"),
    concat!("place", "holder"),
    concat!("lorem", " ipsum"),
];

/// The packages that other programs use, and whose examples are tests (the `[lib]` of the others has `doctest =
/// false`).
const WITH_EXAMPLES: [&str; 2] = ["crates/client/", "crates/wheel/"];

pub(crate) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    tree.files.iter().flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<TidyFinding> {
    let is_code = matches!(file.extension(), "rs" | "lua");
    let mut findings = Vec::new();
    let mut is_in_block = false;
    let has_examples = WITH_EXAMPLES
        .iter()
        .any(|folder| file.path.starts_with(folder));
    for (number, line) in file.lines() {
        let mut find =
            |message: String| findings.push(TidyFinding::new(&file.path, number, message));
        if line.ends_with([' ', '\t']) {
            find("a space at the end of the line".to_owned());
        }
        if is_code && line.contains('\t') {
            find("a tab; indent with spaces".to_owned());
        }
        if let Some(path) = MACHINE_PATHS.iter().find(|path| line.contains(**path)) {
            find(format!("a path of one machine ({path}…)"));
        }
        if let Some(word) = UNFINISHED.iter().find(|word| has_word(line, word)) {
            find(format!("unfinished text ({word})"));
        }
        if let Some(kind) = code_fence(file, line) {
            if !is_in_block && kind != "text" && !has_examples {
                find("an example that no test runs: mark the block as text".to_owned());
            }
            is_in_block = !is_in_block;
        }
    }
    findings
}

/// The text behind the fence of a code block in documentation of Rust code.
fn code_fence<'a>(file: &SourceFile, line: &'a str) -> Option<&'a str> {
    let text = line.trim_start();
    let text = text.strip_prefix("///").or(text.strip_prefix("//!"))?;
    let is_rust = file.extension() == "rs";
    text.trim_start().strip_prefix("```").filter(|_| is_rust)
}

/// Whether the text contains this word, but not as a part of a longer one.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let is_part = |letter: Option<char>| {
        letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
    };
    line.match_indices(word).any(|(start, _)| {
        !is_part(line[..start].chars().next_back())
            && !is_part(line[start + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&SourceTree::from_files(&[(path, text)]))
            .iter()
            .map(TidyFinding::to_string)
            .collect()
    }

    #[test]
    fn spaces_and_tabs_are_found() {
        assert_eq!(
            messages("a.md", "fine\nnot fine \n"),
            ["a.md:2: a space at the end of the line"]
        );
        assert_eq!(
            messages("a.lua", "\tx = 1\n"),
            ["a.lua:1: a tab; indent with spaces"]
        );
        assert!(messages("a.md", "\tx = 1\n").is_empty());
    }

    #[test]
    fn machine_paths_and_unfinished_words_are_found() {
        let path = MACHINE_PATHS[0];
        assert_eq!(
            messages("a.md", &format!("see {path}x")),
            [format!("a.md:1: a path of one machine ({path}…)")]
        );
        let word = UNFINISHED[0];
        assert_eq!(
            messages("a.rs", &format!("// {word}: more")),
            [format!("a.rs:1: unfinished text ({word})")]
        );
        assert!(messages("a.rs", &format!("// {word}LIST and AU{word}")).is_empty());
    }
    #[test]
    fn examples_in_documentation_are_found() {
        let found = ["a.rs:1: an example that no test runs: mark the block as text"];
        assert_eq!(messages("a.rs", "/// ```\n/// f();\n/// ```\n"), found);
        assert_eq!(messages("a.rs", "//! ```rust\n//! ```\n"), found);
        assert!(messages("crates/wheel/src/a.rs", "//! ```\n//! ```\n").is_empty());
        let blocks = "/// ```text\n/// ```\n/// ```text\n/// ```\n";
        assert!(messages("a.rs", blocks).is_empty());
        assert!(messages("a.md", "```\nf();\n```\n").is_empty());
    }
}
