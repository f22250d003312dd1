//! The id, the scopes and the namespaces of an API key.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::name::{InvalidName, Namespace};
use crate::v1::problem::InvalidValue;

/// The length of the id of an API key, in bytes.
pub const API_KEY_ID_BYTES: usize = 12;

/// The id of an API key: 12 of the characters `0` to `9` and `A` to `Z`. It is not a secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKeyId([u8; API_KEY_ID_BYTES]);

/// A text that is not the id of an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the id of an API key has {API_KEY_ID_BYTES} characters of 0-9 and A-Z")]
pub struct InvalidApiKeyId;

/// The requests that an API key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Publish jobs; change, promote and cancel them; show jobs by their keys.
    Publish,
    /// Reserve jobs, and ack, fail, touch and release them.
    Consume,
    /// Show jobs, payloads, queues, relays and lists.
    Read,
    /// Change policies, relays and API keys, act on many jobs, purge and delete queues.
    Admin,
}

/// A set of scopes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Scopes(u8);

/// The namespaces that a key gives access to: one, or all as `*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum NamespaceGrant {
    /// All namespaces; `*` as text.
    All,
    One(Namespace),
}

impl ApiKeyId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        // All bytes are ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl TryFrom<&str> for ApiKeyId {
    type Error = InvalidApiKeyId;

    fn try_from(text: &str) -> Result<Self, InvalidApiKeyId> {
        let bytes = text.as_bytes().try_into().map_err(|_| InvalidApiKeyId)?;
        let id = Self(bytes);
        let is_allowed = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
        id.0.iter()
            .all(is_allowed)
            .then_some(id)
            .ok_or(InvalidApiKeyId)
    }
}

impl fmt::Display for ApiKeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Debug for ApiKeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ApiKeyId({self})")
    }
}

impl Scope {
    /// All scopes, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Publish, Self::Consume, Self::Read, Self::Admin];

    /// The name on the wire and in Redis.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Consume => "consume",
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }

    /// The scope of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Publish => 1,
            Self::Consume => 2,
            Self::Read => 4,
            Self::Admin => 8,
        }
    }
}

impl Scopes {
    /// The set of all scopes.
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    /// Whether the set has no scope.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set has this scope.
    pub const fn contains(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// The scopes of this set, in the order of [`Scope::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL
            .into_iter()
            .filter(move |scope| self.contains(*scope))
    }

    /// The first scope of this set that `other` does not have.
    #[must_use]
    pub fn first_missing_in(self, other: Self) -> Option<Scope> {
        self.iter().find(|scope| !other.contains(*scope))
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.iter()).finish()
    }
}

/// The names of the scopes, separated by commas.
impl fmt::Display for Scopes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Scope::name).collect();
        out.write_str(&names.join(","))
    }
}

impl NamespaceGrant {
    /// The text of [`Self::All`]. No namespace has this name.
    pub const ALL_NAME: &str = "*";

    /// The name of the namespace, or `*`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::All => Self::ALL_NAME,
            Self::One(namespace) => namespace.as_str(),
        }
    }

    /// Whether a namespace belongs to the grant.
    pub fn contains(&self, namespace: &Namespace) -> bool {
        match self {
            Self::All => true,
            Self::One(own) => own == namespace,
        }
    }

    /// Whether all namespaces of another grant belong to this one.
    pub fn includes(&self, other: &Self) -> bool {
        match other {
            Self::All => *self == Self::All,
            Self::One(namespace) => self.contains(namespace),
        }
    }
}

impl fmt::Display for NamespaceGrant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl TryFrom<String> for NamespaceGrant {
    type Error = InvalidValue;

    fn try_from(text: String) -> Result<Self, InvalidValue> {
        match text.as_str() {
            Self::ALL_NAME => Ok(Self::All),
            name => name.parse().map(Self::One),
        }
    }
}

impl From<NamespaceGrant> for String {
    fn from(grant: NamespaceGrant) -> Self {
        grant.to_string()
    }
}

impl TryFrom<&str> for NamespaceGrant {
    type Error = InvalidName;

    fn try_from(text: &str) -> Result<Self, InvalidName> {
        match text {
            Self::ALL_NAME => Ok(Self::All),
            name => Ok(Self::One(name.try_into()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_12_digits_and_capital_letters() {
        let id = ApiKeyId::try_from("0123456789AZ").unwrap();
        assert_eq!(id.as_str(), "0123456789AZ");
        assert_eq!(
            format!("{id} {id:?}"),
            "0123456789AZ ApiKeyId(0123456789AZ)"
        );
        for bad in [
            "",
            "0123456789A",
            "0123456789AZB",
            "0123456789Az",
            "0123456789A_",
            "0123456789é",
            "0123456789A\0",
        ] {
            assert_eq!(ApiKeyId::try_from(bad), Err(InvalidApiKeyId), "{bad:?}");
        }
    }

    #[test]
    fn a_set_has_the_scopes_it_was_made_of_and_no_others() {
        for bits in 0..16_u8 {
            let scopes: Scopes = Scope::ALL
                .into_iter()
                .filter(|scope| bits & scope.bit() != 0)
                .collect();
            assert_eq!(scopes.0, bits);
            let again: Scopes = scopes.iter().collect();
            assert_eq!(again, scopes);
            assert_eq!(scopes.is_empty(), bits == 0);
            for other in 0..16_u8 {
                let missing = scopes.first_missing_in(Scopes(other));
                assert_eq!(missing.is_none(), bits & !other == 0, "{bits} in {other}");
                assert!(missing.is_none_or(|scope| scopes.contains(scope)));
            }
        }
        assert_eq!(Scopes::all().0, 15);
        assert_eq!(Scopes::all().to_string(), "publish,consume,read,admin");
        for scope in Scope::ALL {
            assert_eq!(Scope::of_name(scope.name()), Some(scope));
        }
        for unknown in ["", "Publish", "publish ", "*"] {
            assert_eq!(Scope::of_name(unknown), None, "{unknown:?}");
        }
    }

    #[test]
    fn a_grant_includes_its_own_namespace_only_unless_it_is_for_all() {
        let grant = |text: &str| NamespaceGrant::try_from(text).unwrap();
        let namespace = |name: &str| Namespace::try_from(name).unwrap();
        assert!(grant("shop").contains(&namespace("shop")));
        assert!(!grant("shop").contains(&namespace("shop2")));
        assert!(grant("*").contains(&namespace("shop")));
        for (own, other, is_included) in [
            ("*", "*", true),
            ("*", "shop", true),
            ("shop", "shop", true),
            ("shop", "*", false),
            ("shop", "Shop", false),
        ] {
            let found = grant(own).includes(&grant(other));
            assert_eq!(found, is_included, "{own} includes {other}");
            assert_eq!(grant(own).as_str(), own);
        }
        for bad in ["", "**", "a*", "a b"] {
            assert!(NamespaceGrant::try_from(bad).is_err(), "{bad:?}");
        }
    }
}
