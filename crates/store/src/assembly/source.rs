//! The parts of Lua text that assembling needs: code without comments, words, blocks.

use std::borrow::Borrow;
use std::collections::BTreeSet;

/// A part of a shared file between two blank lines, without comments.
pub(super) struct SharedBlock {
    pub(super) code: String,
    defines: Vec<String>,
}

impl SharedBlock {
    /// The blocks of a file that have code.
    pub(super) fn all_of(file: &str) -> impl Iterator<Item = Self> {
        let blocks = file.split("\n\n").map(code_of);
        blocks.filter(|code| !code.is_empty()).map(|code| {
            let defines = code.lines().flat_map(names_defined_in).map(str::to_owned);
            let defines = defines.collect();
            Self { code, defines }
        })
    }

    pub(super) fn defines_any<T: Borrow<str> + Ord>(&self, names: &BTreeSet<T>) -> bool {
        self.defines
            .iter()
            .any(|name| names.contains(name.as_str()))
    }

    pub(super) fn defines(&self, name: &str) -> bool {
        self.defines.iter().any(|defined| defined == name)
    }
}

/// The text without comments and empty lines.
pub(super) fn code_of(text: &str) -> String {
    let lines = text.lines().map(|line| without_comment(line).trim_end());
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

fn without_comment(line: &str) -> &str {
    let mut is_quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '\'' => is_quoted = !is_quoted,
            '-' if !is_quoted && line[at..].starts_with("--") => return &line[..at],
            _ => {}
        }
    }
    line
}

/// The names that a line defines for the whole script: `local function name(…)` or `local name, name = …`.
fn names_defined_in(line: &str) -> impl Iterator<Item = &str> {
    let defined = line.strip_prefix("local ").unwrap_or_default();
    let defined = defined.strip_prefix("function ").unwrap_or(defined);
    words_of(defined.split(['=', '(']).next().unwrap_or_default())
}

/// Names, keywords and numbers, also those in strings.
pub(super) fn words_of(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c| !is_in_word(c))
        .filter(|word| !word.is_empty())
}

fn is_in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The code with other text for some of its words. Strings and fields of tables (`table.field`) stay.
pub(super) fn with_words_replaced(
    code: &str,
    replacement: impl Fn(&str) -> Option<String>,
) -> String {
    let mut result = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            c if is_in_word(c) => rest.find(|c| !is_in_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, behind) = rest.split_at(length);
        let is_field = result.ends_with('.') && !result.ends_with("..");
        match replacement(token).filter(|_| is_in_word(c) && !is_field) {
            Some(other) => result.push_str(&other),
            None => result.push_str(token),
        }
        rest = behind;
    }
    result
}
