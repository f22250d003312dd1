//! JSON that is passed on as it was written.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::portable_json::check_portable;
use crate::v1::problem::{InvalidValue, ProblemCode};

/// Any JSON value, kept byte for byte as in the request: numbers keep their digits, objects their order.
///
/// It can only be read from JSON text, not from a [`serde_json::Value`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonText(Box<RawValue>);

impl JsonText {
    /// The JSON, without spaces around it.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl From<JsonText> for Vec<u8> {
    fn from(json: JsonText) -> Self {
        Box::<str>::from(json.0).into_string().into_bytes()
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for JsonText {}

impl TryFrom<String> for JsonText {
    type Error = InvalidValue;

    fn try_from(text: String) -> Result<Self, InvalidValue> {
        let not_json = |reason: String| {
            let detail = format!(
                "the payload is not valid JSON ({reason}): correct it, or send it with another content type"
            );
            InvalidValue::new(detail).with_code(ProblemCode::PayloadNotJson)
        };
        let json = RawValue::from_string(text).map_err(|error| not_json(error.to_string()))?;
        check_portable(json.get().as_bytes()).map_err(not_json)?;
        Ok(Self(json))
    }
}

/// Reads a field that is there. Its value may be `null`, which differs from an absent field.
pub(crate) fn even_null<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<JsonText>, D::Error> {
    JsonText::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_kept_as_it_was_written() {
        let text = r#"{"b":1.0,"a":123456789012345678901234567890,"a":"\u00fc"}"#;
        let json: JsonText = serde_json::from_str(&format!(" {text} ")).unwrap();
        assert_eq!(json.as_str(), text);
        assert_eq!(serde_json::to_string(&json).unwrap(), text);
        assert_eq!(JsonText::try_from(text.to_owned()).unwrap(), json);
    }

    #[test]
    fn what_is_not_json_is_rejected() {
        for text in ["", "{", "a", "1 2", "NaN"] {
            let error = JsonText::try_from(text.to_owned()).unwrap_err();
            assert_eq!(error.code, ProblemCode::PayloadNotJson, "{text:?}");
        }
    }
}
