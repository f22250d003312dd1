//! The name of a relay or schedule.

use std::fmt;

use tidegate_core::{InvalidName, Namespace};

/// A name in a namespace. Its text is `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    pub namespace: Namespace,
    /// The name. It has no slash.
    pub name: String,
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

impl TryFrom<&str> for NamespacedName {
    type Error = InvalidName;

    fn try_from(text: &str) -> Result<Self, InvalidName> {
        let parts = text.split_once('/');
        let parts = parts.filter(|(_, name)| !name.is_empty() && !name.contains('/'));
        let (namespace, name) = parts.ok_or(InvalidName::ForbiddenCharacters)?;
        Ok(Self {
            namespace: namespace.try_into()?,
            name: name.to_owned(),
        })
    }
}
