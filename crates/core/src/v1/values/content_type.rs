//! Content types of payloads.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits::CONTENT_TYPE_BYTES_MAX;
use crate::v1::problem::InvalidValue;

/// The content type of a payload, such as `application/json` or `text/plain; charset=utf-8`.
///
/// A type and a subtype, then any parameters, which are not checked; ASCII, at most [`CONTENT_TYPE_BYTES_MAX`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ContentType(Cow<'static, str>);

impl ContentType {
    pub const JSON: Self = Self(Cow::Borrowed("application/json"));
    /// Bytes without a known type.
    pub const BYTES: Self = Self(Cow::Borrowed("application/octet-stream"));

    /// The text, as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether payloads of this type are JSON: `application/json`, or a subtype that ends in `+json`.
    pub fn is_json(&self) -> bool {
        let essence = self.essence();
        let ends_with = |end: &str| {
            let start = essence.len().checked_sub(end.len());
            start.is_some_and(|start| essence[start..].eq_ignore_ascii_case(end))
        };
        essence.eq_ignore_ascii_case("application/json") || ends_with("+json")
    }

    /// Whether it is the default of `curl -d` and of browsers.
    pub fn is_form(&self) -> bool {
        let form = "application/x-www-form-urlencoded";
        self.essence().eq_ignore_ascii_case(form)
    }

    /// The type without parameters.
    fn essence(&self) -> &str {
        self.0.split(';').next().unwrap_or_default().trim_end()
    }
}

impl Default for ContentType {
    fn default() -> Self {
        Self::BYTES
    }
}

fn is_valid(text: &str) -> bool {
    let is_token = |part: &str| {
        let is_allowed =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        !part.is_empty() && part.bytes().all(is_allowed)
    };
    let essence = text
        .split(';')
        .next()
        .unwrap_or_default()
        .trim_end_matches(' ');
    let (kind, subtype) = essence.split_once('/').unwrap_or_default();
    let is_printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    text.len() <= CONTENT_TYPE_BYTES_MAX && is_printable && is_token(kind) && is_token(subtype)
}

impl TryFrom<String> for ContentType {
    type Error = InvalidValue;

    fn try_from(text: String) -> Result<Self, InvalidValue> {
        if !is_valid(&text) {
            return Err(InvalidValue::new(format!(
                "the content type must be like text/plain; charset=utf-8: ASCII, at most {CONTENT_TYPE_BYTES_MAX} bytes"
            )));
        }
        Ok(Self(text.into()))
    }
}

impl FromStr for ContentType {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        text.to_owned().try_into()
    }
}

impl fmt::Display for ContentType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_accepted_as_they_are_and_json_is_recognised() {
        for (text, is_json) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/problem+json", true),
            ("application/vnd.x+JSON ;v=1", true),
            ("application/octet-stream", false),
            ("text/plain; a=json", false),
            ("text/json5", false),
            ("a/b", false),
        ] {
            let read: ContentType = text.parse().unwrap();
            assert_eq!(read.as_str(), text);
            assert_eq!(read.is_json(), is_json, "{text}");
        }
        assert!(ContentType::JSON.is_json() && !ContentType::default().is_json());
    }

    #[test]
    fn other_texts_are_rejected() {
        let long = format!("a/{}", "b".repeat(CONTENT_TYPE_BYTES_MAX));
        for text in [
            "",
            "json",
            "a/",
            "/b",
            "a/b/c",
            "a b/c",
            "a/b\r\nX: y",
            "a/ü",
            "a/b; ü",
            ";a/b",
            &long,
        ] {
            assert!(text.parse::<ContentType>().is_err(), "{text:?}");
        }
        assert_eq!(
            serde_json::to_string(&ContentType::JSON).unwrap(),
            "\"application/json\""
        );
        assert!(serde_json::from_str::<ContentType>("\"json\"").is_err());
    }
}
