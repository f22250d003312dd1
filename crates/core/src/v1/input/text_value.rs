//! Reads a value of any type from the text of a parameter.

use serde::de::value::{Error as TextError, StrDeserializer};
use serde::de::{Deserializer, Error, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::body::without_position;
use crate::v1::problem::InvalidValue;

/// The text of a parameter. Numbers and booleans are parsed, structures are JSON, all else is a string.
pub(super) struct TextValue<'a>(pub(super) &'a str);

impl TextValue<'_> {
    fn whole_number(&self) -> Result<u64, TextError> {
        let is_plain = self.0.bytes().all(|byte| byte.is_ascii_digit());
        let number = self.0.parse().ok().filter(|_| is_plain);
        number.ok_or_else(|| self.expected("a whole number"))
    }

    fn expected(&self, what: &str) -> TextError {
        let shown: String = self.0.chars().take(50).collect();
        TextError::custom(InvalidValue::new(format!("{shown:?} is not {what}")))
    }
}

impl<'a> IntoDeserializer<'a> for TextValue<'a> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for TextValue<'de> {
    type Error = TextError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TextError> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TextError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, TextError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TextError> {
        visitor.visit_u64(self.whole_number()?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TextError> {
        match self.0 {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            _ => Err(self.expected("true or false")),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TextError> {
        let text: StrDeserializer<'_, TextError> = self.0.into_deserializer();
        text.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TextError> {
        let mut json = serde_json::Deserializer::from_str(self.0);
        let value = json.deserialize_map(visitor);
        let value = value.and_then(|value| json.end().map(|()| value));
        value.map_err(|error| match without_position(&error) {
            text if error.is_data() => TextError::custom(text),
            text => TextError::custom(format!("not valid JSON: {text}")),
        })
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct struct identifier ignored_any
    }
}
