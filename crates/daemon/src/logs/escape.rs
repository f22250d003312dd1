//! Escapes control characters of log lines. They occur only in values, except for the colors of text on a terminal.

use std::borrow::Cow;

use tidegate_core::visible_text::{escape, is_control, push_escape};

/// Replaces the control characters of a line, which is without its end. Sequences for colors stay if it has colors.
pub(super) fn escaped(line: &str, has_colors: bool) -> Cow<'_, str> {
    if !has_colors {
        return escape(line);
    }
    let mut escaped = String::with_capacity(line.len());
    for (index, letter) in line.char_indices() {
        match letter {
            '\u{1b}' if is_color(&line[index + 1..]) => escaped.push(letter),
            letter if is_control(letter) => push_escape(&mut escaped, letter),
            letter => escaped.push(letter),
        }
    }
    Cow::Owned(escaped)
}

/// Whether the text behind an ESC makes it a sequence for a color or style, such as `[31m`.
fn is_color(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix('[') else {
        return false;
    };
    let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';');
    rest.starts_with('m')
}
