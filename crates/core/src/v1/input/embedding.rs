//! Reads an object with the fields of two structures. With `flatten` of serde the errors would not name the field.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};

/// A structure that reads its fields one by one, and leaves other fields to the structure that it embeds.
pub(crate) trait OwnFields: Default {
    /// Reads the value of a field; `false` if another structure has the field.
    fn read<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<bool, A::Error>;
}

/// Reads a structure and the structure that it embeds from a JSON object, which may have these fields.
pub(crate) fn embedding<'de, D: Deserializer<'de>, T: OwnFields, E: Deserialize<'de>>(
    deserializer: D,
    fields: &'static [&'static str],
) -> Result<(T, E), D::Error> {
    let types = PhantomData;
    deserializer.deserialize_map(Embedding { fields, types })
}

struct Embedding<T, E> {
    fields: &'static [&'static str],
    types: PhantomData<(T, E)>,
}

impl<'de, T: OwnFields, E: Deserialize<'de>> Visitor<'de> for Embedding<T, E> {
    type Value = (T, E);

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(T, E), A::Error> {
        let mut own = T::default();
        let others = OtherFields {
            map,
            own: &mut own,
            fields: self.fields,
            seen: Vec::new(),
        };
        let embedded = E::deserialize(MapAccessDeserializer::new(others))?;
        Ok((own, embedded))
    }
}

/// The fields of the embedded structure. The others are read on the way.
struct OtherFields<'a, A, T> {
    map: A,
    own: &'a mut T,
    fields: &'static [&'static str],
    seen: Vec<&'static str>,
}

impl<'de, A: MapAccess<'de>, T: OwnFields> MapAccess<'de> for OtherFields<'_, A, T> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(field) = self.map.next_key_seed(KnownField(self.fields))? {
            if self.seen.contains(&field) {
                return Err(A::Error::duplicate_field(field));
            }
            self.seen.push(field);
            if !self.own.read(field, &mut self.map)? {
                return seed.deserialize(field.into_deserializer()).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// The name of one of these fields.
struct KnownField(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for KnownField {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for KnownField {
    type Value = &'static str;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("field identifier")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<&'static str, E> {
        let known = self.0.iter().find(|field| **field == name);
        known.copied().ok_or_else(|| E::unknown_field(name, self.0))
    }
}
