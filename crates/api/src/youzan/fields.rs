//! The fields of a request. Errors name the field and say what it must be.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::error::YouzanError;

/// How much of a name an error shows, in characters.
const NAME_CHARACTERS: usize = 64;

/// The fields of the JSON object of a request. Unknown ones are ignored, as in the original.
#[derive(Debug)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// It is not a JSON object, or has a field twice.
    pub(super) fn parse(text: &[u8]) -> Result<Self, YouzanError> {
        let read: ReadFields = serde_json::from_slice(text).map_err(|problem| {
            YouzanError::invalid(format!("the request must be a JSON object: {problem}"))
        })?;
        match read.repeated {
            Some(name) => Err(YouzanError::invalid(format!(
                "{name:?} is there twice; send it once"
            ))),
            None => Ok(Self(read.fields)),
        }
    }

    /// A text; `None` if the field is missing or null.
    ///
    /// # Errors
    /// It is something else.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, YouzanError> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(YouzanError::invalid(format!(
                "{name:?} must be a text in quotes, not {}",
                kind(&other)
            ))),
        }
    }

    /// A text that the command needs.
    ///
    /// # Errors
    /// It is missing, or something else.
    pub(super) fn required_text(&mut self, name: &str) -> Result<String, YouzanError> {
        let text = self.text(name)?;
        text.ok_or_else(|| YouzanError::invalid(format!("{name:?} is missing")))
    }

    /// A whole number of seconds; `None` if the field is missing or null.
    ///
    /// # Errors
    /// It is something else, or out of bounds.
    pub(super) fn seconds(
        &mut self,
        name: &str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, YouzanError> {
        let value = match self.0.remove(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(value) => value,
        };
        match value.as_u64() {
            Some(seconds) if (least..=most).contains(&seconds) => Ok(Some(seconds)),
            _ => {
                let found = match &value {
                    Value::Number(number) => number.to_string(),
                    other => kind(other).to_owned(),
                };
                Err(YouzanError::invalid(format!(
                    "{name:?} must be a whole number of seconds, {least} to {most}, not {found}"
                )))
            }
        }
    }

    /// A number of seconds that the command needs, under the first of these names that the request has.
    ///
    /// # Errors
    /// It is missing, something else, or out of bounds.
    pub(super) fn required_seconds(
        &mut self,
        names: &[&str],
        least: u64,
        most: u64,
    ) -> Result<u64, YouzanError> {
        for name in names {
            if let Some(seconds) = self.seconds(name, least, most)? {
                return Ok(seconds);
            }
        }
        let name = names.first().copied().unwrap_or_default();
        Err(YouzanError::invalid(format!("{name:?} is missing")))
    }
}

/// An object as it was sent.
struct ReadFields {
    fields: Map<String, Value>,
    /// The first name that is there twice, shortened.
    repeated: Option<String>,
}

impl<'de> Deserialize<'de> for ReadFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = ReadFields;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ReadFields, A::Error> {
        let (mut fields, mut repeated) = (Map::new(), None);
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            if repeated.is_none() && fields.contains_key(&name) {
                repeated = Some(name.chars().take(NAME_CHARACTERS).collect());
            }
            fields.insert(name, value);
        }
        Ok(ReadFields { fields, repeated })
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
