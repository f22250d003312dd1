//! JSON as Go's encoder writes it: `<`, `>`, `&` and the two line separators of Unicode (U+2028, U+2029) are escaped,
//! so that an answer can be embedded in a web page. Keys have the order of the fields of a struct, which is
//! alphabetical.

use std::io;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};
use serde_json::{Map, Value};

/// The length of most answers that show no job.
const BYTES_USUAL: usize = 128;

const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// An answer with a JSON body on one line.
pub(crate) fn answer(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    with_body(status, Body::from(compact(value)))
}

/// An answer with a JSON body indented by four spaces.
pub(crate) fn pretty_answer(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    with_body(status, Body::from(pretty(value)))
}

/// A JSON text indented by four spaces.
pub(crate) fn pretty(value: &impl Serialize) -> Vec<u8> {
    write(value, HtmlSafe(PrettyFormatter::with_indent(b"    ")))
}

/// A JSON text on one line.
pub(crate) fn compact(value: &impl Serialize) -> Vec<u8> {
    write(value, HtmlSafe(CompactFormatter))
}

/// An answer whose body is JSON already.
pub(crate) fn with_body(status: StatusCode, body: Body) -> Response<Body> {
    (status, [(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response()
}

/// Parses a JSON object only: a derived `Deserialize` would accept an array of its values as well.
///
/// # Errors
/// The text is not an object, or not one of this type.
pub(crate) fn parse_object<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    let object: Map<String, Value> = serde_json::from_slice(text)?;
    serde_json::from_value(object.into())
}

fn write(value: &impl Serialize, formatter: impl Formatter) -> Vec<u8> {
    let mut text = Vec::with_capacity(BYTES_USUAL);
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
    if let Err(error) = value.serialize(&mut serializer) {
        // All values have string keys and writing to a vector cannot fail, so this is a bug.
        tracing::error!(%error, "failed to write an answer as JSON");
    }
    text
}

struct HtmlSafe<F>(F);

/// Whether a byte may be the first byte of an escaped character. Both separators begin with E2 in UTF-8.
const fn may_begin_special(byte: u8) -> bool {
    matches!(byte, b'<' | b'>' | b'&' | 0xE2)
}

/// Forwards the methods that write the layout.
macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {
        $(fn $method<W: ?Sized + io::Write>(&mut self, writer: &mut W, $($argument: $type),*) -> io::Result<()> {
            self.0.$method(writer, $($argument),*)
        })*
    };
}

impl<F: Formatter> Formatter for HtmlSafe<F> {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // Nearly all texts have nothing to escape. A scan of all bytes, which does not end at the first one, is
        // compiled to vector instructions.
        let may_have_special = |found, byte| found | may_begin_special(byte);
        if !fragment.bytes().fold(false, may_have_special) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (plain, special) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut after = special.chars();
            if let Some(character) = after.next() {
                write!(writer, "\\u{:04x}", u32::from(character))?;
            }
            rest = after.as_str();
        }
        writer.write_all(rest.as_bytes())
    }

    forward! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        end_object_key();
        begin_object_value();
        end_object_value();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_safe_inside_html() {
        let text = compact(&"a<b>&c \u{2028}\u{2029}ü\"\n");
        let expected = r#""a\u003cb\u003e\u0026c \u2028\u2029ü\"\n""#;
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn pretty_means_four_spaces() {
        let value = serde_json::json!({"tokens": {"a": "<"}, "none": {}});
        let text = String::from_utf8(pretty(&value)).unwrap();
        let expected =
            "{\n    \"none\": {},\n    \"tokens\": {\n        \"a\": \"\\u003c\"\n    }\n}";
        assert_eq!(text, expected);
    }
}
