//! Attributes of jobs: request headers whose names begin with `Job-Attr-`, if the header `Enable-Job-Version: yes` is
//! present.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_core::Attributes;
use tidegate_core::limits::ATTRIBUTES_BYTES_MAX;
use tidegate_core::v1::values::JobAttributes;

use super::error::ApiError;

const SWITCH: HeaderName = HeaderName::from_static("enable-job-version");
const PREFIX: &str = "job-attr-";
const COUNT_MAX: usize = 16;
const KEY_BYTES_MAX: usize = 32;
const VALUE_BYTES_MAX: usize = 128;

/// The headers of a publish that apply to its jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct JobHeaders {
    /// Whether the ids are shown in their versioned form.
    pub(crate) versioned_id: bool,
    /// At most 16 attributes: keys in lower case, each once, up to 32 bytes; values up to 128 bytes of the header.
    pub(crate) attributes: Attributes,
}

impl JobHeaders {
    /// Reads the headers. Long keys and values are truncated, empty values are skipped, and the first of several
    /// headers with the same key is used.
    ///
    /// # Errors
    /// More than 16 attributes are left, or they have more bytes than a delivery of the native API or a webhook has
    /// room for.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Self, ApiError> {
        let switch = headers.get(SWITCH).map_or(&b""[..], HeaderValue::as_bytes);
        if !switch.eq_ignore_ascii_case(b"yes") {
            return Ok(Self::default());
        }
        let mut attributes = Attributes::new();
        for name in headers.keys() {
            let Some(key) = name.as_str().strip_prefix(PREFIX) else {
                continue;
            };
            // Header names are ASCII, so any position is a character boundary.
            let key = &key[..key.len().min(KEY_BYTES_MAX)];
            let value = headers.get(name).map_or(&b""[..], HeaderValue::as_bytes);
            if value.is_empty() || attributes.iter().any(|(known, _)| known == key) {
                continue;
            }
            let value = &value[..value.len().min(VALUE_BYTES_MAX)];
            let value = String::from_utf8_lossy(value).into_owned();
            attributes.push((key.to_owned(), value));
        }
        if attributes.len() > COUNT_MAX {
            return Err(ApiError::TooManyAttributes);
        }
        // Bytes that are not UTF-8 become longer.
        let shown = attributes.iter().map(|(name, value)| (name, value));
        if JobAttributes::header_bytes(shown) > ATTRIBUTES_BYTES_MAX {
            return Err(ApiError::AttributesTooLarge);
        }
        Ok(Self {
            versioned_id: true,
            attributes,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn attributes_are_off_unless_switched_on() {
        let many: Vec<(String, &str)> = (0..20).map(|n| (format!("Job-Attr-{n}"), "v")).collect();
        let mut lines: Vec<(&str, &str)> = many.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        assert_eq!(
            JobHeaders::read(&headers(&lines)),
            Ok(JobHeaders::default())
        );
        lines.push(("Enable-Job-Version", "true"));
        assert_eq!(
            JobHeaders::read(&headers(&lines)),
            Ok(JobHeaders::default())
        );
        lines.pop();
        lines.push(("enable-job-version", "yes"));
        assert_eq!(
            JobHeaders::read(&headers(&lines)),
            Err(ApiError::TooManyAttributes)
        );
    }

    #[test]
    fn keys_and_values_are_truncated_and_the_first_is_used() {
        let (key, value) = ("K".repeat(40), "v".repeat(200));
        let long_key = format!("Job-Attr-{key}");
        let lines = [
            ("Enable-Job-Version", "YES"),
            ("Job-Attr-x-Y", "1"),
            ("Job-Attr-X-y", "2"),
            ("Job-Attr-empty", ""),
            ("Job-Attr-", "nameless"),
            (long_key.as_str(), value.as_str()),
            ("X-Other", "no"),
        ];
        let extras = JobHeaders::read(&headers(&lines)).unwrap();
        assert!(extras.versioned_id);
        let mut attributes = extras.attributes;
        attributes.sort();
        let expected = [
            (String::new(), "nameless".to_owned()),
            ("k".repeat(32), "v".repeat(128)),
            ("x-y".to_owned(), "1".to_owned()),
        ];
        assert_eq!(attributes, expected);
    }

    /// Each byte that is not UTF-8 becomes a character of three bytes, and nine bytes as a header.
    #[test]
    fn all_attributes_together_fit_in_headers() {
        let read = |value: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(SWITCH, HeaderValue::from_static("yes"));
            for number in 10..26 {
                let name: HeaderName = format!("{PREFIX}{number}").parse().unwrap();
                headers.insert(name, HeaderValue::from_bytes(value).unwrap());
            }
            JobHeaders::read(&headers).map(|read| read.attributes.len())
        };
        assert_eq!(read("\u{fc}".repeat(64).as_bytes()), Ok(16));
        assert_eq!(read(&[0xff; 55]), Ok(16));
        assert_eq!(read(&[0xff; 128]), Err(ApiError::AttributesTooLarge));
    }

    proptest! {
        #[test]
        fn attributes_keep_their_limits_whatever_the_headers_say(
            lines in prop::collection::vec(("[!#-'*+.^_`|~0-9A-Za-z-]{0,50}", prop::collection::vec(32_u8..=255, 0..200)), 0..25),
        ) {
            let mut headers = HeaderMap::new();
            headers.insert(SWITCH, HeaderValue::from_static("yes"));
            for (key, value) in &lines {
                let name: HeaderName = format!("{PREFIX}{key}").parse().unwrap();
                // 127 is a control character.
                if let Ok(value) = HeaderValue::from_bytes(value) {
                    headers.append(name, value);
                }
            }
            match JobHeaders::read(&headers) {
                Err(ApiError::AttributesTooLarge) => {}
                Err(refusal) => prop_assert!(refusal == ApiError::TooManyAttributes && lines.len() > COUNT_MAX),
                Ok(extras) => {
                    prop_assert!(extras.attributes.len() <= COUNT_MAX);
                    let keys: std::collections::HashSet<_> = extras.attributes.iter().map(|(key, _)| key).collect();
                    prop_assert_eq!(keys.len(), extras.attributes.len());
                    for (key, value) in &extras.attributes {
                        prop_assert!(key.len() <= KEY_BYTES_MAX && *key == key.to_lowercase());
                        // A byte that is not UTF-8 is replaced by a character of three bytes.
                        prop_assert!(!value.is_empty() && value.len() <= 3 * VALUE_BYTES_MAX);
                    }
                }
            }
        }
    }
}
