//! Items of a request that are a text, or an object if there is more to say than the text.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::v1::problem::InvalidValue;

/// An item that is read from a text or from an object.
pub(crate) trait TextOrObject: From<Self::Text> {
    /// The text.
    type Text: FromStr<Err = InvalidValue>;

    /// The accepted forms, for errors.
    const EXPECTED: &'static str;

    /// Reads the object.
    fn from_object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// Reads an item.
pub(crate) fn text_or_object<'de, D: Deserializer<'de>, T: TextOrObject>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(ItemVisitor(PhantomData))
}

struct ItemVisitor<T>(PhantomData<T>);

impl<'de, T: TextOrObject> Visitor<'de> for ItemVisitor<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse::<T::Text>().map(T::from).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::from_object(MapAccessDeserializer::new(map))
    }
}
