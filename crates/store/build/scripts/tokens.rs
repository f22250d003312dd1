//! The parts of Lua code.

use std::collections::BTreeSet;

/// The text without comments and empty lines.
pub(super) fn code_of(text: &str) -> String {
    let lines = text.lines().map(|line| without_comment(line).trim_end());
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

fn without_comment(line: &str) -> &str {
    let mut length = 0;
    for token in tokens(line) {
        if line[length..].starts_with("--") {
            break;
        }
        length += token.len();
    }
    &line[..length]
}

/// Strings, words (names, keywords, numbers), and single other characters.
fn tokens(code: &str) -> impl Iterator<Item = &str> {
    let mut rest = code;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let length = match first {
            '\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            first if is_in_word(first) => rest.find(|c| !is_in_word(c)).unwrap_or(rest.len()),
            other => other.len_utf8(),
        };
        let (token, behind) = rest.split_at(length);
        rest = behind;
        Some(token)
    })
}

/// The tokens, and whether each is a word that is no field of a table (`table.field`).
fn marked_tokens(code: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut dots = 0;
    tokens(code).map(move |token| {
        let is_name = token.starts_with(is_in_word) && dots != 1;
        dots = if token == "." { dots + 1 } else { 0 };
        (token, is_name)
    })
}

fn is_in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The words that are no fields of tables.
pub(super) fn names_in(code: &str) -> BTreeSet<String> {
    let names = marked_tokens(code).filter(|(_, is_name)| *is_name);
    names.map(|(token, _)| token.to_owned()).collect()
}

/// The words that follow this text.
pub(super) fn fields_behind(text: &str, code: &str) -> BTreeSet<String> {
    let behind = code.split(text).skip(1);
    behind
        .filter_map(|code| Some(tokens(code).next()?.to_owned()))
        .collect()
}

/// The code with other text for some of its names.
pub(super) fn with_names_replaced(
    code: &str,
    replacement: impl Fn(&str) -> Option<String>,
) -> String {
    let replaced = marked_tokens(code).map(|(token, is_name)| {
        let other = is_name.then(|| replacement(token)).flatten();
        other.unwrap_or_else(|| token.to_owned())
    });
    replaced.collect()
}
