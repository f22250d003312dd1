//! Escapes control characters of log lines.
//!
//! The JSON format escapes only characters below U+0020, and the text format leaves them unescaped where it writes
//! a value without quotes. They occur only in values, except for the colors of text on a terminal.

use std::borrow::Cow;

use tidegate_core::visible_text::{is_control, push_escape};

/// How a line is escaped where the characters below U+0020 are still known to belong to values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEscape {
    /// The format has escaped them.
    Json,
    Text,
    /// Sequences for colors stay.
    ColoredText,
}

impl LineEscape {
    pub(super) const fn of_text(has_colors: bool) -> Self {
        match has_colors {
            true => Self::ColoredText,
            false => Self::Text,
        }
    }

    /// Replaces the characters below U+0020 of a line, which is without its end.
    pub(super) fn of(self, line: &str) -> Cow<'_, str> {
        if self == Self::Json || !line.contains(is_low_control) {
            return Cow::Borrowed(line);
        }
        let mut escaped = String::with_capacity(line.len() + 16);
        for (index, letter) in line.char_indices() {
            match letter {
                '\u{1b}' if self == Self::ColoredText && is_color(&line[index + 1..]) => {
                    escaped.push(letter);
                }
                letter if is_low_control(letter) => push_escape(&mut escaped, letter),
                letter => escaped.push(letter),
            }
        }
        Cow::Owned(escaped)
    }
}

const fn is_low_control(letter: char) -> bool {
    letter < ' '
}

/// Whether the text behind an ESC makes it a sequence for a color or style, such as `[31m`.
fn is_color(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix('[') else {
        return false;
    };
    let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';');
    rest.starts_with('m')
}

/// Replaces the control characters above U+0020 by JSON escapes, such as `\u0085`.
pub(super) fn escaped(line: &[u8]) -> Cow<'_, [u8]> {
    // The first bytes of these characters in UTF-8.
    let may_have_some = line
        .iter()
        .any(|byte| matches!(byte, 0x7f | 0xc2 | 0xd8 | 0xe2));
    match str::from_utf8(line) {
        Ok(text) if may_have_some && text.contains(is_high_control) => {
            Cow::Owned(escape(text).into_bytes())
        }
        _ => Cow::Borrowed(line),
    }
}

fn is_high_control(letter: char) -> bool {
    !is_low_control(letter) && is_control(letter)
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_high_control(letter) {
            push_escape(&mut escaped, letter);
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_escapes_and_nothing_else_changes() {
        for (line, shown) in [
            ("a\u{7f}b\n", "a\\u007fb\n"),
            ("\u{80}\u{85}\u{9b}\u{9f}", "\\u0080\\u0085\\u009b\\u009f"),
            ("x\u{2028}y\u{2029}", "x\\u2028y\\u2029"),
            ("user\u{202e}nimda\u{61c}", "user\\u202enimda\\u061c"),
            (
                "caf\u{e9} \u{a0} \u{2027}\u{200d} \u{1b}[2m",
                "caf\u{e9} \u{a0} \u{2027}\u{200d} \u{1b}[2m",
            ),
        ] {
            assert_eq!(escaped(line.as_bytes()), shown.as_bytes(), "{line:?}");
        }
        let broken = b"\xc2\xff";
        assert_eq!(escaped(broken), &broken[..]);
    }
}
