//! Attributes of jobs.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::limits::{
    ATTRIBUTE_NAME_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX,
};
use crate::v1::problem::InvalidValue;

/// Names and values that travel with a job, apart from its payload.
///
/// At most [`ATTRIBUTES_MAX`]. A name has 1 to [`ATTRIBUTE_NAME_BYTES_MAX`] bytes of lower-case letters, digits, `-`,
/// `_` and `.`, so that it can be a header; a value has up to [`ATTRIBUTE_VALUE_BYTES_MAX`] bytes of UTF-8 without
/// control characters. Names that begin with `:` are reserved for the server. As headers, all together have at most
/// [`ATTRIBUTES_BYTES_MAX`] bytes.
///
/// Requests check this with [`JobAttributes::check`]. Attributes in answers are not checked, since jobs of the lmstfy
/// wire follow other rules.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct JobAttributes(pub BTreeMap<String, String>);

impl JobAttributes {
    /// The beginning of headers with attributes, in lower case.
    pub const HEADER_PREFIX: &'static str = "job-attr-";

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks the attributes of a request.
    ///
    /// # Errors
    /// Too many attributes, a name or value that is not allowed, or more bytes than headers may have.
    pub fn check(&self) -> Result<(), InvalidValue> {
        if self.0.len() > ATTRIBUTES_MAX {
            let detail = format!(
                "{} attributes; a job has at most {ATTRIBUTES_MAX}",
                self.0.len()
            );
            return Err(InvalidValue::new(detail));
        }
        self.0
            .iter()
            .try_for_each(|(name, value)| check_attribute(name, value))?;
        self.check_bytes(ATTRIBUTES_BYTES_MAX)
    }

    /// Checks that they fit in the headers of a delivery.
    ///
    /// # Errors
    /// They have more bytes as headers.
    pub fn check_bytes(&self, bytes_max: usize) -> Result<(), InvalidValue> {
        let bytes = Self::header_bytes(&self.0);
        if bytes > bytes_max {
            return Err(InvalidValue::new(format!(
                "the attributes have {bytes} bytes as headers (percent-encoded); at most {bytes_max} are allowed, since \
                 servers refuse longer headers: move large values to the payload"
            )));
        }
        Ok(())
    }

    /// Adds the attribute of a header, if it is one: `Job-Attr-Tenant: a` is the attribute `tenant`.
    ///
    /// # Errors
    /// The attribute is there already.
    pub fn add_header(&mut self, header: &str, value: &str) -> Result<(), InvalidValue> {
        let header = header.to_ascii_lowercase();
        let Some(name) = header.strip_prefix(Self::HEADER_PREFIX) else {
            return Ok(());
        };
        if self.0.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(InvalidValue::new(format!(
                "the header {header} is there twice; send it once"
            )));
        }
        Ok(())
    }
}

fn check_attribute(name: &str, value: &str) -> Result<(), InvalidValue> {
    if name.starts_with(':') {
        let detail =
            format!("the attribute {name:?} is reserved: names must not begin with a colon");
        return Err(InvalidValue::new(detail));
    }
    let is_allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    if !(1..=ATTRIBUTE_NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_allowed) {
        let name: String = name.chars().take(ATTRIBUTE_NAME_BYTES_MAX).collect();
        return Err(InvalidValue::new(format!(
            "the name of the attribute {name:?} must be 1 to {ATTRIBUTE_NAME_BYTES_MAX} bytes of lower-case letters, \
             digits, -, _ and ."
        )));
    }
    if value.len() > ATTRIBUTE_VALUE_BYTES_MAX || value.chars().any(char::is_control) {
        return Err(InvalidValue::new(format!(
            "the value of the attribute {name:?} must be at most {ATTRIBUTE_VALUE_BYTES_MAX} bytes of UTF-8 without \
             control characters"
        )));
    }
    Ok(())
}

/// A name that is there twice is an error.
impl<'de> Deserialize<'de> for JobAttributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AttributesVisitor)
    }
}

struct AttributesVisitor;

impl<'de> Visitor<'de> for AttributesVisitor {
    type Value = JobAttributes;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JobAttributes, A::Error> {
        let mut attributes = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, String>()? {
            if attributes.contains_key(&name) {
                let name: String = name.chars().take(ATTRIBUTE_NAME_BYTES_MAX).collect();
                return Err(Error::custom(format!("duplicate attribute {name:?}")));
            }
            attributes.insert(name, value);
        }
        Ok(JobAttributes(attributes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(pairs: &[(&str, &str)]) -> JobAttributes {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        JobAttributes(pairs.iter().map(owned).collect())
    }

    #[test]
    fn limits_are_inclusive() {
        let names: Vec<String> = (0..=ATTRIBUTES_MAX)
            .map(|number| format!("n{number}"))
            .collect();
        let pairs: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert_eq!(attributes(&pairs[1..]).check(), Ok(()));
        let error = attributes(&pairs).check().unwrap_err();
        assert_eq!(error.detail, "33 attributes; a job has at most 32");
        let (name, value) = ("n".repeat(64), "v".repeat(1_024));
        assert_eq!(attributes(&[(&name, &value)]).check(), Ok(()));
        assert!(attributes(&[(&format!("{name}n"), "")]).check().is_err());
        assert!(attributes(&[("n", &format!("{value}v"))]).check().is_err());
        // Bytes count, not characters.
        assert!(attributes(&[("n", &"ü".repeat(513))]).check().is_err());
    }

    #[test]
    fn names_and_values_can_be_headers() {
        for name in ["a", "x-tenant", "a.b_c-9"] {
            assert_eq!(attributes(&[(name, "Zürich, 8001")]).check(), Ok(()));
        }
        for name in ["", "A", "a b", "ü", "a:b", "a\n"] {
            let error = attributes(&[(name, "")]).check().unwrap_err();
            assert!(
                error.detail.contains("lower-case"),
                "{name:?}: {}",
                error.detail
            );
        }
        for value in ["a\nb", "a\0", "\t"] {
            assert!(attributes(&[("a", value)]).check().is_err(), "{value:?}");
        }
    }

    #[test]
    fn a_name_occurs_once() {
        let read = |json: &str| serde_json::from_str::<JobAttributes>(json);
        assert_eq!(
            read(r#"{"a":"1","b":"1"}"#).unwrap(),
            attributes(&[("a", "1"), ("b", "1")])
        );
        let error = read(r#"{"a":"1","b":"1","a":"1"}"#)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("duplicate attribute \"a\""), "{error}");
        assert!(read("null").is_err() && read("[]").is_err());
    }

    #[test]
    fn names_that_begin_with_a_colon_are_reserved() {
        for name in [":", ":t", ":k"] {
            let error = attributes(&[(name, "")]).check().unwrap_err();
            assert!(error.detail.contains("reserved"), "{}", error.detail);
        }
    }

    #[test]
    fn headers_are_attributes_in_lower_case() {
        let mut read = JobAttributes::default();
        read.add_header("Job-Attr-Tenant", "a").unwrap();
        read.add_header("Content-Type", "text/plain").unwrap();
        assert_eq!(read, attributes(&[("tenant", "a")]));
        assert!(read.add_header("job-attr-tenant", "b").is_err());
        read.add_header("job-attr-", "nameless").unwrap();
        assert!(read.check().is_err());
    }
}
