//! Values that are an integer or a text: instants and durations.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, Visitor};

use crate::v1::problem::InvalidValue;

/// A value that requests give as an integer or as text.
pub(super) trait IntegerOrText: Sized {
    /// The accepted forms, for errors.
    const EXPECTED: &'static str;

    fn from_integer(integer: u64) -> Result<Self, InvalidValue>;

    fn from_text(text: &str) -> Result<Self, InvalidValue>;

    /// The error for a number that is negative, has a fraction, or does not fit 64 bits.
    fn invalid_number(number: impl fmt::Display) -> InvalidValue {
        InvalidValue::new(format!("{number} is not {}", Self::EXPECTED))
    }

    fn deserialize_from<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IntegerOrTextVisitor(PhantomData))
    }
}

struct IntegerOrTextVisitor<T>(PhantomData<T>);

impl<T: IntegerOrText> Visitor<'_> for IntegerOrTextVisitor<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(T::EXPECTED)
    }

    fn visit_u64<E: Error>(self, integer: u64) -> Result<T, E> {
        T::from_integer(integer).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, integer: i64) -> Result<T, E> {
        let unsigned = u64::try_from(integer).map_err(|_| T::invalid_number(integer));
        unsigned.and_then(T::from_integer).map_err(E::custom)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        Err(E::custom(T::invalid_number(number)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text).map_err(E::custom)
    }
}
