//! Escapes characters that a terminal obeys, a line reader takes for the end of a line, or that change the order in
//! which the rest of a line is shown. Log lines and the command line show texts of other programs.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character is a control character, a line or paragraph separator, or a control of the writing direction.
#[must_use]
pub const fn is_control(letter: char) -> bool {
    matches!(letter,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{61c}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}')
}

/// Appends the escape of a control character, which is valid in a JSON string: `\n`, `\u202e`.
pub fn push_escape(escaped: &mut String, letter: char) {
    match letter {
        '\n' => escaped.push_str("\\n"),
        '\r' => escaped.push_str("\\r"),
        '\t' => escaped.push_str("\\t"),
        // A string takes all that is written.
        other => drop(write!(escaped, "\\u{:04x}", u32::from(other))),
    }
}

/// Escapes all control characters of a text.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match is_control(letter) {
            true => push_escape(&mut escaped, letter),
            false => escaped.push(letter),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_escapes_and_nothing_else_changes() {
        for (text, shown) in [
            ("a\u{1b}[2J\u{7f}b\n", "a\\u001b[2J\\u007fb\\n"),
            ("\u{80}\u{9f}", "\\u0080\\u009f"),
            ("x\u{2028}y\u{2029}", "x\\u2028y\\u2029"),
            ("user\u{202e}nimda\u{202c}", "user\\u202enimda\\u202c"),
            (
                "\u{2066}\u{2069}\u{200f}\u{61c}",
                "\\u2066\\u2069\\u200f\\u061c",
            ),
            // A joiner is part of many names, and U+2027 is a hyphenation point.
            (
                "caf\u{e9} 支付宝 \u{a0}\u{2027}\u{200d}",
                "caf\u{e9} 支付宝 \u{a0}\u{2027}\u{200d}",
            ),
        ] {
            assert_eq!(escape(text), shown);
        }
    }
}
