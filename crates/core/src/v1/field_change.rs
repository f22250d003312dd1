//! Fields of a change in the sense of RFC 7396: absent, `null`, or a value.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The change of one field. In a struct it needs `#[serde(default)]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldChange<T> {
    /// The field is absent: it stays as it is.
    #[default]
    Keep,
    /// The field is `null`: it has its default again.
    Reset,
    /// The field has this value.
    Set(T),
}

impl<T> FieldChange<T> {
    /// Whether the field stays as it is.
    pub const fn is_kept(&self) -> bool {
        matches!(self, Self::Keep)
    }

    /// The new value, if there is one.
    pub const fn value(&self) -> Option<&T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Reset => None,
        }
    }

    /// The change with another value.
    pub fn map<U>(&self, value: impl FnOnce(&T) -> U) -> FieldChange<U> {
        match self {
            Self::Keep => FieldChange::Keep,
            Self::Reset => FieldChange::Reset,
            Self::Set(it) => FieldChange::Set(value(it)),
        }
    }

    /// The change where `null` changes nothing.
    pub(crate) fn unless_reset(self) -> Self {
        match self {
            Self::Reset => Self::Keep,
            other => other,
        }
    }

    /// The field after the change.
    #[must_use]
    pub fn apply(self, current: T, default: T) -> T {
        match self {
            Self::Keep => current,
            Self::Reset => default,
            Self::Set(value) => value,
        }
    }

    /// The same for a field that is absent by default.
    #[must_use]
    pub fn apply_to_option(self, current: Option<T>) -> Option<T> {
        match self {
            Self::Keep => current,
            Self::Reset => None,
            Self::Set(value) => Some(value),
        }
    }
}

impl<T> From<T> for FieldChange<T> {
    fn from(value: T) -> Self {
        Self::Set(value)
    }
}

/// `Keep` must be skipped, for which serde needs `skip_serializing_if = "FieldChange::is_kept"`; otherwise it is
/// `null`.
impl<T: Serialize> Serialize for FieldChange<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for FieldChange<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Option::deserialize(deserializer)?;
        Ok(value.map_or(Self::Reset, Self::Set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_kept_reset_or_set() {
        assert_eq!(FieldChange::Keep.apply(1, 9), 1);
        assert_eq!(FieldChange::Reset.apply(1, 9), 9);
        assert_eq!(FieldChange::from(2).apply(1, 9), 2);
        assert_eq!(FieldChange::Keep.apply_to_option(Some(1)), Some(1));
        assert_eq!(FieldChange::Reset.apply_to_option(Some(1)), None);
        assert_eq!(FieldChange::Set(2).apply_to_option(None), Some(2));
    }

    #[test]
    fn null_resets() {
        assert_eq!(
            serde_json::from_str::<FieldChange<u8>>("null").unwrap(),
            FieldChange::Reset
        );
        assert_eq!(
            serde_json::from_str::<FieldChange<u8>>("7").unwrap(),
            FieldChange::Set(7)
        );
        assert_eq!(
            serde_json::to_string(&FieldChange::<u8>::Reset).unwrap(),
            "null"
        );
    }
}
