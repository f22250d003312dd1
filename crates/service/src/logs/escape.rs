//! Escapes characters that a terminal takes for a control sequence, or a line reader for the end of a line.
//!
//! The JSON format escapes only those below U+0020, and the text format leaves them unescaped where it writes
//! a value without quotes. They occur only in values, except for the colors of text on a terminal.

use std::borrow::Cow;

/// How a line is escaped where the characters below U+0020 are still known to be those of values.
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
                '\n' => escaped.push_str("\\n"),
                '\r' => escaped.push_str("\\r"),
                '\t' => escaped.push_str("\\t"),
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

/// Whether what follows an ESC makes it a sequence for a color or style, such as `[31m`.
fn is_color(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix('[') else {
        return false;
    };
    let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';');
    rest.starts_with('m')
}

fn push_escape(escaped: &mut String, letter: char) {
    escaped.push_str(&format!("\\u{:04x}", u32::from(letter)));
}

/// Replaces DEL, U+0080 to U+009F, U+2028 and U+2029 by JSON escapes, such as `\u0085`.
pub(super) fn escaped(line: &[u8]) -> Cow<'_, [u8]> {
    // The first bytes of these characters in UTF-8.
    let may_have_some = line.iter().any(|byte| matches!(byte, 0x7f | 0xc2 | 0xe2));
    match str::from_utf8(line) {
        Ok(text) if may_have_some && text.contains(is_control) => {
            Cow::Owned(escape(text).into_bytes())
        }
        _ => Cow::Borrowed(line),
    }
}

fn is_control(letter: char) -> bool {
    matches!(letter, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}')
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_control(letter) {
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
            (
                "caf\u{e9} \u{a0} \u{2027}\u{202a} \u{1b}[2m",
                "caf\u{e9} \u{a0} \u{2027}\u{202a} \u{1b}[2m",
            ),
        ] {
            assert_eq!(escaped(line.as_bytes()), shown.as_bytes(), "{line:?}");
        }
        let broken = b"\xc2\xff";
        assert_eq!(escaped(broken), &broken[..]);
    }
}
