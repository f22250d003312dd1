//! Functions that are called rarely are defined when the first of them is called.
//!
//! A shared file or a script names them in a line of its comments: `-- Rarely calls: name, name`. They, and what only they
//! use, become the content of the function `rarely`; a call `name(…)` becomes `rarely().name(…)`.

use std::collections::BTreeSet;

use super::source::{SharedBlock, with_words_replaced, words_of};
use super::split;

const RARELY_CALLS: &str = "-- Rarely calls: ";

/// The functions that the code of a file calls rarely.
pub(super) fn rarely_called(file: &str) -> impl Iterator<Item = &str> {
    let lists = file
        .lines()
        .filter_map(|line| line.strip_prefix(RARELY_CALLS));
    lists.flat_map(|names| names.split(", "))
}

/// The text of these blocks and a script, with those of the other blocks that calls of `rare` functions need.
pub(super) fn with_rare_functions(
    always: &[SharedBlock],
    others: Vec<SharedBlock>,
    rare: &BTreeSet<&str>,
    script: &str,
) -> String {
    let text = text_of(always);
    let words: BTreeSet<&str> = words_of(&text).chain(words_of(script)).collect();
    let called: Vec<&str> = rare
        .iter()
        .copied()
        .filter(|name| words.contains(name) && others.iter().any(|block| block.defines(name)))
        .collect();
    if called.is_empty() {
        return [text.as_str(), script].join("\n");
    }
    let (needed, _) = split(others, &called.join(" "), |_| true);
    let by_rarely = |code: &str| {
        with_words_replaced(code, |word| {
            called.contains(&word).then(|| format!("rarely().{word}"))
        })
    };
    let fields: Vec<String> = called
        .iter()
        .map(|name| format!("{name} = {name}"))
        .collect();
    format!(
        "local rarely, rarely_called\n{}\nrarely = function()\nif not rarely_called then\n{}\nrarely_called = {{ {} }}\nend\n\
         return rarely_called\nend\n{}",
        by_rarely(&text),
        text_of(&needed),
        fields.join(", "),
        by_rarely(script),
    )
}

fn text_of(blocks: &[SharedBlock]) -> String {
    let codes: Vec<&str> = blocks.iter().map(|block| block.code.as_str()).collect();
    codes.join("\n")
}
