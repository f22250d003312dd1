//! Names of namespaces and queues. A value of these types is valid: it is checked when it is made.

use std::fmt;
use std::sync::Arc;

use crate::limits::NAME_BYTES_MAX;

/// Why a name is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// The name has more than [`NAME_BYTES_MAX`] bytes.
    #[error("name is longer than {NAME_BYTES_MAX} bytes")]
    TooLong,
    /// The name is empty or has a byte outside of `-`, `_`, `0-9`, `A-Z`, `a-z`.
    #[error("name contains forbidden characters: use letters, digits, - and _")]
    ForbiddenCharacters,
}

fn check(name: &str) -> Result<Arc<str>, InvalidName> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || !name.bytes().all(allowed) {
        return Err(InvalidName::ForbiddenCharacters);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(InvalidName::TooLong);
    }
    Ok(name.into())
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<&str> for $name {
            type Error = InvalidName;

            fn try_from(name: &str) -> Result<Self, InvalidName> {
                check(name).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }
    };
}

name! {
    /// A tenant: 1 to 255 bytes of letters, digits, `-` and `_`. Cheap to clone.
    Namespace
}

name! {
    /// A queue inside a namespace: 1 to 255 bytes of letters, digits, `-` and `_`. Cheap to clone.
    QueueName
}

/// A queue and the namespace it belongs to. Its text is `namespace/queue`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueKey {
    /// The tenant.
    pub namespace: Namespace,
    /// The queue of that tenant.
    pub queue: QueueName,
}

impl fmt::Display for QueueKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.queue)
    }
}

impl TryFrom<&str> for QueueKey {
    type Error = InvalidName;

    /// Reads `namespace/queue`, the text that [`fmt::Display`] writes.
    fn try_from(text: &str) -> Result<Self, InvalidName> {
        let (namespace, queue) = text
            .split_once('/')
            .ok_or(InvalidName::ForbiddenCharacters)?;
        Ok(Self {
            namespace: namespace.try_into()?,
            queue: queue.try_into()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(name: &str, refused: Option<InvalidName>) {
        assert_eq!(QueueName::try_from(name).err(), refused, "{name:?}");
    }

    #[test]
    fn names_are_letters_digits_dash_and_underscore_up_to_255_bytes() {
        expect("a", None);
        expect("-", None);
        expect("_a-Z09", None);
        expect(&"x".repeat(255), None);
        expect(&"x".repeat(256), Some(InvalidName::TooLong));
        for bad in ["", " ", "a.b", "a/b", "ü", "a\0", "a\n"] {
            expect(bad, Some(InvalidName::ForbiddenCharacters));
        }
    }

    #[test]
    fn a_queue_key_round_trips_through_its_text() {
        let key = QueueKey::try_from("shop/close-unpaid").unwrap();
        assert_eq!(key.namespace.as_str(), "shop");
        assert_eq!(QueueKey::try_from(key.to_string().as_str()), Ok(key));
        assert!(QueueKey::try_from("no-slash").is_err());
        assert!(QueueKey::try_from("a/b/c").is_err());
    }
}
