//! Secrets of relays: texts that no answer of `/v1` shows.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const EXPECTED: &str = "a text";

/// A password, a key or a token; or that there is none. It is not shown by [`fmt::Debug`].
///
/// A `PUT` distinguishes an absent secret, for which the stored one stays, from `""`, which removes it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SecretText(Option<String>);

impl SecretText {
    /// The secret; `""` if there is none.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether there is no secret.
    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }

    /// Whether the field is absent: not even `""`.
    pub const fn is_absent(&self) -> bool {
        self.0.is_none()
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(Some(text))
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.is_empty() {
            "SecretText(none)"
        } else {
            "SecretText(…)"
        })
    }
}

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Reads a text. The errors for other values do not repeat them: a PIN may be written as a number.
struct SecretVisitor;

impl Visitor<'_> for SecretVisitor {
    type Value = SecretText;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SecretText, E> {
        Ok(text.to_owned().into())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<SecretText, E> {
        Err(E::invalid_type(Unexpected::Other("boolean"), &self))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<SecretText, E> {
        Err(E::invalid_type(Unexpected::Other("number"), &self))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<SecretText, E> {
        Err(E::invalid_type(Unexpected::Other("number"), &self))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<SecretText, E> {
        Err(E::invalid_type(Unexpected::Other("number"), &self))
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecretVisitor)
    }
}
