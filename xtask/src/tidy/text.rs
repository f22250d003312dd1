//! What no file contains.

use super::Finding;
use super::tree::{File, Tree};

/// Folders of one machine. Written in parts, so that this file keeps the rule.
const MACHINE_PATHS: [&str; 2] = [concat!("/", "root/"), concat!("/", "home/")];
/// Words that stand where something is still to be written.
const UNFINISHED: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("TB", "D"),
    concat!("place", "holder"),
    concat!("lorem", " ipsum"),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let is_code = matches!(file.extension(), "rs" | "lua");
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        let mut find = |message: String| findings.push(Finding::new(&file.path, number, message));
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
    }
    findings
}

/// Whether the text has this word, not as a part of a longer one.
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
        check(&Tree::of(&[(path, text)]))
            .iter()
            .map(Finding::to_string)
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
}
