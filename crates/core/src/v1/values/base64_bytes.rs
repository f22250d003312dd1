//! Bytes as base64.

use base64::Engine as _;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize, Serializer};

use crate::v1::problem::InvalidValue;

/// Bytes, written in JSON as base64 with the alphabet of RFC 4648, section 4, and padding.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct Base64Bytes(pub Vec<u8>);

impl TryFrom<String> for Base64Bytes {
    type Error = InvalidValue;

    fn try_from(text: String) -> Result<Self, InvalidValue> {
        let decoded = STANDARD.decode(text);
        decoded.map(Self).map_err(|error| {
            InvalidValue::new(format!(
                "not base64 ({error}): use the alphabet with + and /, with = at the end, without line breaks"
            ))
        })
    }
}

impl Serialize for Base64Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(&self.0, &STANDARD))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn other_texts_are_rejected() {
        for text in [
            "a", "YQ", "YQ=", "YQ==\n", "YR==", "_-8=", "YQ== ", "Y Q==", "=", "ü",
        ] {
            let error = serde_json::from_value::<Base64Bytes>(json!(text)).unwrap_err();
            let error = error.to_string();
            assert!(
                error.starts_with("invalid_parameter: not base64"),
                "{text:?}: {error}"
            );
        }
        assert!(serde_json::from_value::<Base64Bytes>(json!([1, 2])).is_err());
    }

    #[test]
    fn escapes_of_json_are_read() {
        let read: Base64Bytes = serde_json::from_str(r#""\u0059Q==""#).unwrap();
        assert_eq!(read.0, b"a");
        let none: Base64Bytes = serde_json::from_str("\"\"").unwrap();
        assert!(none.0.is_empty());
    }

    proptest! {
        #[test]
        fn all_bytes_are_read_as_they_are_written(bytes: Vec<u8>) {
            let value = Base64Bytes(bytes);
            let json = serde_json::to_value(&value).unwrap();
            prop_assert_eq!(serde_json::from_value::<Base64Bytes>(json).unwrap(), value);
        }

        #[test]
        fn a_text_stands_for_one_value(text in "[A-Za-z0-9+/=]{0,12}") {
            if let Ok(bytes) = Base64Bytes::try_from(text.clone()) {
                prop_assert_eq!(serde_json::to_value(&bytes).unwrap(), json!(text));
            }
        }
    }
}
