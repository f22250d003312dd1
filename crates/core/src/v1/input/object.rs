//! Reads structures only from JSON objects. The derived code of serde also takes an array with the values of the fields
//! in their order, so `["dead"]` would purge a dead letter.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

use crate::v1::field_change::FieldChange;
use crate::v1::problem::InvalidValue;

/// The most objects in an array of a request.
const ITEMS_MAX: usize = 1_000;

/// A structure, read from an object.
struct Object<T>(PhantomData<T>);

/// The same, or `null`.
struct OptionalObject<T>(PhantomData<T>);

/// Structures in an array.
struct Objects<T>(PhantomData<T>);

/// Reads a structure from a JSON object; also a field: `#[serde(deserialize_with = "object")]`.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_map(Object(PhantomData))
}

/// Reads a field with at most 1,000 objects: `#[serde(deserialize_with = "objects")]`.
pub(crate) fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(Objects(PhantomData))
}

/// Reads a field with an object or `null`.
pub(crate) fn optional_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_option(OptionalObject(PhantomData))
}

/// Reads a change of a field that is an object.
pub(crate) fn changed_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<FieldChange<T>, D::Error> {
    let value = optional_object(deserializer)?;
    Ok(value.map_or(FieldChange::Reset, FieldChange::Set))
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Object<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        object(deserializer)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for OptionalObject<T> {
    type Value = Option<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON object or null")
    }

    fn visit_none<E: de::Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        object(deserializer).map(Some)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Objects<T> {
    type Value = Vec<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an array of JSON objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Vec<T>, A::Error> {
        let mut read = Vec::new();
        while let Some(item) = array.next_element_seed(Object(PhantomData))? {
            // An object in memory may take a hundred times the space of `{}` in the body.
            if read.len() == ITEMS_MAX {
                let detail = format!("there must be 1 to {ITEMS_MAX} items");
                return Err(de::Error::custom(InvalidValue::new(detail)));
            }
            read.push(item);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct ItemList {
        #[serde(deserialize_with = "objects")]
        items: Vec<Item>,
    }

    #[derive(Debug, Deserialize)]
    struct Item {
        #[serde(default, deserialize_with = "optional_object")]
        inner: Option<ItemPart>,
    }

    #[derive(Debug, Deserialize)]
    struct ItemPart {
        number: u8,
    }

    fn read(json: &str) -> Result<ItemList, serde_json::Error> {
        object(&mut serde_json::Deserializer::from_str(json))
    }

    #[test]
    fn only_objects_are_read() {
        let sample = read(r#"{"items":[{"inner":{"number":7}},{"inner":null},{}]}"#).unwrap();
        let numbers = sample
            .items
            .iter()
            .map(|item| item.inner.as_ref().map(|it| it.number));
        assert_eq!(numbers.collect::<Vec<_>>(), [Some(7), None, None]);
        for wrong in [
            "[[]]",
            r#"{"items":[[null]]}"#,
            r#"{"items":[{"inner":[7]}]}"#,
            r#"{"items":[{"inner":7}]}"#,
            r#"{"items":{}}"#,
        ] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.starts_with("invalid type: "), "{wrong}: {error}");
        }
    }

    /// The rest of a longer array is not read: here it is no JSON.
    #[test]
    fn an_array_has_at_most_1000_objects() {
        let array = |items: usize, rest: &str| {
            format!("{{\"items\":[{}{rest}]}}", vec!["{}"; items].join(","))
        };
        assert_eq!(read(&array(1_000, "")).unwrap().items.len(), 1_000);
        let error = read(&array(1_001, ",?")).unwrap_err().to_string();
        assert!(error.contains("there must be 1 to 1000 items"), "{error}");
    }
}
