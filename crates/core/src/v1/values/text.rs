//! Texts with rules: names, ids, keys, leases, cursors.
use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::job_id::JobId;
use crate::limits::{
    ATTRIBUTE_NAME_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, CURSOR_BYTES_MAX, FILTER_BYTES_MAX,
    GROUP_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX, JOB_ID_BYTES, KEY_BYTES_MAX, LEASE_BYTES_MAX,
    LIMIT_NAME_BYTES_MAX, NAME_BYTES_MAX, POOL_BYTES_MAX, RELAY_NAME_BYTES_MAX,
    SCHEDULE_NAME_BYTES_MAX, WORKER_NAME_BYTES_MAX,
};
use crate::name::{Namespace, QueueName};
use crate::v1::problem::{InvalidValue, ProblemCode};

/// The rule for a kind of text.
pub(super) struct TextRule {
    /// The name of the kind, for errors and the schema: "the key of a job".
    what: &'static str,
    bytes_min: usize,
    bytes_max: usize,
    /// The allowed characters, as a pattern of JSON Schema. `None` allows all except control characters.
    #[cfg_attr(
        not(feature = "openapi"),
        expect(dead_code, reason = "only schemas have it")
    )]
    pattern: Option<&'static str>,
    allows: fn(char) -> bool,
    /// A further condition.
    fits: fn(&str) -> bool,
    /// The allowed characters, for errors and the schema.
    allowed: &'static str,
    code: ProblemCode,
}

impl TextRule {
    fn check(&self, text: &str) -> Result<(), InvalidValue> {
        let refused = text.chars().find(|letter| !(self.allows)(*letter));
        let has_length = (self.bytes_min..=self.bytes_max).contains(&text.len());
        match refused.is_none() && has_length && (self.fits)(text) {
            true => Ok(()),
            false => Err(self.invalid(text)),
        }
    }

    fn invalid(&self, text: &str) -> InvalidValue {
        let refused = text.chars().find(|letter| !(self.allows)(*letter));
        let mut detail = format!("{} must be {}", self.what, self.describe());
        if let Some(refused) = refused {
            let code = u32::from(refused);
            let _ = write!(detail, "; {refused:?} (U+{code:04X}) is not allowed");
        }
        InvalidValue::new(detail).with_code(self.code)
    }

    pub(super) fn describe(&self) -> String {
        match self.bytes_min == self.bytes_max {
            true => format!("{} characters of {}", self.bytes_max, self.allowed),
            false => format!(
                "{} to {} bytes of {}",
                self.bytes_min, self.bytes_max, self.allowed
            ),
        }
    }

    #[cfg(feature = "openapi")]
    fn schema(&self) -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        let description = format!("{}: {}.", self.what, self.describe());
        let schema = crate::openapi::answer::text_schema(&description, self.bytes_max);
        schema.pattern(self.pattern).into()
    }
}

const fn is_of_names(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '-' || letter == '_'
}

const fn is_visible_ascii(letter: char) -> bool {
    letter.is_ascii_graphic()
}

fn is_no_control(letter: char) -> bool {
    !letter.is_control()
}

/// Crockford's base 32 in upper case.
const fn is_of_ids(letter: char) -> bool {
    matches!(letter, '0'..='9' | 'A'..='Z') && !matches!(letter, 'I' | 'L' | 'O' | 'U')
}

const fn is_any(_: &str) -> bool {
    true
}

fn is_attribute(text: &str) -> bool {
    let name = text.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && !name.starts_with(':')
}

const NAME: TextRule = TextRule {
    what: "a name",
    bytes_min: 1,
    bytes_max: NAME_BYTES_MAX,
    pattern: Some("^[A-Za-z0-9_-]+$"),
    allows: is_of_names,
    fits: is_any,
    allowed: "letters, digits, - and _",
    code: ProblemCode::InvalidName,
};

const OPAQUE: TextRule = TextRule {
    what: "an opaque text",
    bytes_min: 1,
    bytes_max: CURSOR_BYTES_MAX,
    pattern: Some("^[!-~]+$"),
    allows: is_visible_ascii,
    fits: is_any,
    allowed: "ASCII without spaces, as the server returned it",
    code: ProblemCode::InvalidParameter,
};

const FREE: TextRule = TextRule {
    what: "a text",
    bytes_min: 1,
    bytes_max: KEY_BYTES_MAX,
    pattern: None,
    allows: is_no_control,
    fits: is_any,
    allowed: "UTF-8 without control characters",
    code: ProblemCode::InvalidParameter,
};

/// Gives a type the schema of its rule.
macro_rules! schema_of_rule {
    ($name:ident, $schema:literal) => {
        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                Self::RULE.schema()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                $schema.into()
            }
        }
    };
}

/// Defines a text that is checked when it is made.
macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident, schema $schema:literal, rule $rule:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(String);

        impl $name {
            const RULE: TextRule = $rule;

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidValue;

            fn try_from(text: String) -> Result<Self, InvalidValue> {
                Self::RULE.check(&text).map(|()| Self(text))
            }
        }

        impl FromStr for $name {
            type Err = InvalidValue;

            fn from_str(text: &str) -> Result<Self, InvalidValue> {
                text.to_owned().try_into()
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> Self {
                text.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        schema_of_rule!($name, $schema);
    };
}

/// Reads and writes a type of the model, which knows itself which texts are valid, as a text.
macro_rules! text_of_model {
    ($name:ident, schema $schema:literal, rule $rule:expr) => {
        impl $name {
            pub(super) const RULE: TextRule = $rule;
        }

        impl FromStr for $name {
            type Err = InvalidValue;

            fn from_str(text: &str) -> Result<Self, InvalidValue> {
                text.try_into().map_err(|_| Self::RULE.invalid(text))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(D::Error::custom)
            }
        }

        schema_of_rule!($name, $schema);
    };
}

text_of_model! { QueueName, schema "QueueName", rule TextRule { what: "the name of a queue", ..NAME } }

text_of_model! { Namespace, schema "Namespace", rule TextRule { what: "the name of a namespace", ..NAME } }

text_of_model! {
    JobId, schema "JobId", rule TextRule {
        what: "the id of a job",
        bytes_min: JOB_ID_BYTES,
        bytes_max: JOB_ID_BYTES,
        pattern: Some("^[0-7][0-9A-HJKMNP-TV-Z]{25}$"),
        allows: is_of_ids,
        fits: is_any,
        allowed: "upper-case Crockford base 32",
        code: ProblemCode::InvalidParameter,
    }
}

text_type! {
    /// The name of a pool: 1 to [`POOL_BYTES_MAX`] bytes of letters, digits, `-` and `_`.
    PoolText, schema "Pool", rule TextRule {
        what: "the name of a pool",
        bytes_min: 1,
        bytes_max: POOL_BYTES_MAX,
        code: ProblemCode::InvalidParameter,
        ..NAME
    }
}

text_type! {
    /// The name of a limit that queues share: 1 to [`LIMIT_NAME_BYTES_MAX`] bytes of letters, digits, `-` and `_`.
    LimitNameText, schema "LimitName", rule TextRule {
        what: "the name of a limit",
        bytes_min: 1,
        bytes_max: LIMIT_NAME_BYTES_MAX,
        code: ProblemCode::InvalidParameter,
        ..NAME
    }
}

text_type! {
    /// The name of a relay: 1 to [`RELAY_NAME_BYTES_MAX`] bytes of letters, digits, `-` and `_`.
    RelayNameText, schema "RelayName", rule TextRule {
        what: "the name of a relay",
        bytes_min: 1,
        bytes_max: RELAY_NAME_BYTES_MAX,
        code: ProblemCode::InvalidParameter,
        ..NAME
    }
}

text_type! {
    /// The name of a schedule: 1 to [`SCHEDULE_NAME_BYTES_MAX`] bytes of letters, digits, `-` and `_`.
    ScheduleNameText, schema "ScheduleName", rule TextRule {
        what: "the name of a schedule",
        bytes_min: 1,
        bytes_max: SCHEDULE_NAME_BYTES_MAX,
        code: ProblemCode::InvalidParameter,
        ..NAME
    }
}

text_type! {
    /// The key of a job, unique in its queue: 1 to [`KEY_BYTES_MAX`] bytes of UTF-8 without control characters.
    JobKey, schema "JobKey", rule TextRule { what: "the key of a job", ..FREE }
}

text_type! {
    /// The group of a job, such as its tenant: 1 to [`GROUP_BYTES_MAX`] bytes of UTF-8 without control characters.
    JobGroup, schema "JobGroup", rule TextRule { what: "the group of a job", bytes_max: GROUP_BYTES_MAX, ..FREE }
}

text_type! {
    /// The name that a worker gives itself: 1 to [`WORKER_NAME_BYTES_MAX`] bytes of UTF-8 without control characters.
    WorkerNameText, schema "WorkerName", rule TextRule { what: "the name of a worker", bytes_max: WORKER_NAME_BYTES_MAX, ..FREE }
}

text_type! {
    /// A part of a text: 1 to [`FILTER_BYTES_MAX`] bytes of UTF-8 without control characters.
    FilterText, schema "FilterText", rule TextRule { what: "a part of a text", bytes_max: FILTER_BYTES_MAX, ..FREE }
}

text_type! {
    /// An attribute, as `NAME=VALUE`.
    AttributeText, schema "Attribute", rule TextRule {
        what: "an attribute",
        bytes_min: 1,
        bytes_max: ATTRIBUTE_NAME_BYTES_MAX + 1 + ATTRIBUTE_VALUE_BYTES_MAX,
        pattern: Some("^[^:=][^=]*="),
        allows: is_no_control,
        fits: is_attribute,
        allowed: "UTF-8 without control characters, as NAME=VALUE",
        code: ProblemCode::InvalidParameter,
    }
}

impl AttributeText {
    /// Its name and its value.
    pub fn parts(&self) -> (&str, &str) {
        self.0.split_once('=').unwrap_or((&self.0, ""))
    }
}

text_type! {
    /// A lease of a job, as a reserve call returned it. Opaque; at most [`LEASE_BYTES_MAX`] bytes.
    LeaseText, schema "Lease", rule TextRule { what: "a lease", bytes_max: LEASE_BYTES_MAX, ..OPAQUE }
}

text_type! {
    /// The place where a list continues, as `next` of the page before. Opaque.
    CursorText, schema "Cursor", rule TextRule { what: "a cursor", ..OPAQUE }
}

text_type! {
    /// An `Idempotency-Key`: 1 to [`IDEMPOTENCY_KEY_BYTES_MAX`] bytes of ASCII without spaces.
    IdempotencyKey, schema "IdempotencyKey", rule TextRule {
        what: "an Idempotency-Key",
        bytes_min: 1,
        bytes_max: IDEMPOTENCY_KEY_BYTES_MAX,
        allowed: "ASCII without spaces",
        ..OPAQUE
    }
}

#[cfg(test)]
mod tests;
