//! JSON as Go's encoder writes it: `<`, `>`, `&` and the two line separators of Unicode are escaped, so
//! that an answer may be put into a web page. Keys come in the order of a struct's fields, which are
//! kept in alphabetical order.

use std::io;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// An answer with a JSON body on one line.
pub(crate) fn answer(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    with_body(status, Body::from(line(value)))
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
pub(crate) fn line(value: &impl Serialize) -> Vec<u8> {
    write(value, HtmlSafe(CompactFormatter))
}

/// An answer whose body is JSON already.
pub(crate) fn with_body(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, CONTENT_TYPE);
    response
}

/// An answer that has nothing to say but that it is done.
pub(crate) fn no_content() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

fn write(value: &impl Serialize, formatter: impl Formatter) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    if let Err(error) = value.serialize(&mut serializer) {
        // Our own values have text keys and a vector takes all bytes: this is a bug, not an event.
        tracing::error!(%error, "an answer could not be written as JSON");
    }
    bytes
}

struct HtmlSafe<F>(F);

/// Whether a byte may be the first of a character that is escaped. Both separators begin with E2.
const fn may_begin_special(byte: u8) -> bool {
    matches!(byte, b'<' | b'>' | b'&' | 0xE2)
}

/// Forwards what gives a text its layout.
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
        // Nearly every text has nothing to escape; a look at its bytes says so soonest.
        if !fragment.bytes().any(may_begin_special) {
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
        let text = line(&"a<b>&c \u{2028}\u{2029}ü\"\n");
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
