//! Texts of clients in headers, encoded as in the HTTP binding of CloudEvents.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::attributes::JobAttributes;

/// <https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md#3132-http-header-values>
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// `: ` and the end of the line.
const LINE_BYTES: usize = 4;

/// The value of a header with this text: its UTF-8, with `%XX` for white space, `"`, `%`, and all that is not ASCII.
pub fn header_text(text: &str) -> Cow<'_, str> {
    utf8_percent_encode(text, ENCODED).into()
}

impl JobAttributes {
    /// The bytes that attributes take as headers.
    pub fn header_bytes<'a>(
        attributes: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> usize {
        let attributes = attributes.into_iter();
        attributes
            .map(|(name, value)| {
                Self::HEADER_PREFIX.len() + name.len() + header_text(value).len() + LINE_BYTES
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode_str;

    use super::*;

    #[test]
    fn a_text_is_encoded_as_cloudevents_does() {
        for (text, encoded) in [
            ("blue", "blue"),
            ("", ""),
            ("a b", "a%20b"),
            ("Euro \u{20ac} \u{1f600}", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
            ("100% \"so\"", "100%25%20%22so%22"),
            ("~!#&+;=", "~!#&+;="),
        ] {
            assert_eq!(header_text(text), encoded);
            assert_eq!(percent_decode_str(encoded).decode_utf8().unwrap(), text);
        }
    }
}
