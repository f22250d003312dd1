//! Access that a credential gives, and the grants that it may pass on.

use std::sync::Arc;

use tidegate_core::{NamespaceGrant, Scope, Scopes};

use crate::error::AccessError;

/// The access that a credential gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The pool whose queues it gives access to.
    pub pool: Arc<str>,
    pub namespaces: NamespaceGrant,
    /// The allowed uses.
    pub scopes: Scopes,
    /// From when on it is refused, in ms since 1970 on the clock of Redis; `None` = never.
    pub expires_at_ms: Option<u64>,
}

/// Why a key cannot create a key with the requested grant. A key can create keys only within its own grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The new key has a scope that the creating key does not have, or that key lacks `admin`.
    #[error("the creating key lacks the scope {}", .0.name())]
    Scope(Scope),
    /// The new key is for a namespace that the creating key gives no access to.
    #[error("the creating key gives no access to this namespace")]
    Namespace,
    /// The new key is for another pool.
    #[error("the creating key is for another pool")]
    Pool,
    /// The new key expires later than the creating key, or never.
    #[error("the creating key expires earlier")]
    Expiry,
}

impl Grant {
    /// Checks that the grant has a scope in a namespace, or in all. The namespaces are checked first.
    ///
    /// # Errors
    /// [`AccessError::NamespaceForbidden`] or [`AccessError::ScopeMissing`].
    pub fn check(&self, namespaces: &NamespaceGrant, scope: Scope) -> Result<(), AccessError> {
        if !self.namespaces.includes(namespaces) {
            return Err(AccessError::NamespaceForbidden);
        }
        if !self.scopes.contains(scope) {
            return Err(AccessError::ScopeMissing(scope));
        }
        Ok(())
    }

    /// Checks that a key with this grant can create a key with the grant `new`: that needs the scope `admin`, and `new`
    /// must be within this grant in each respect.
    ///
    /// # Errors
    /// The first respect in which it is not.
    pub fn check_new_key(&self, new: &Self) -> Result<(), GrantError> {
        if !self.scopes.contains(Scope::Admin) {
            return Err(GrantError::Scope(Scope::Admin));
        }
        if !self.namespaces.includes(&new.namespaces) {
            return Err(GrantError::Namespace);
        }
        if self.pool != new.pool {
            return Err(GrantError::Pool);
        }
        if let Some(missing) = new.scopes.first_missing_in(self.scopes) {
            return Err(GrantError::Scope(missing));
        }
        match (self.expires_at_ms, new.expires_at_ms) {
            (None, _) => Ok(()),
            (Some(own_ms), Some(new_ms)) if new_ms <= own_ms => Ok(()),
            (Some(_), _) => Err(GrantError::Expiry),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(namespaces: &str, scopes: &[Scope]) -> Grant {
        Grant {
            pool: "default".into(),
            namespaces: NamespaceGrant::try_from(namespaces).unwrap(),
            scopes: scopes.iter().copied().collect(),
            expires_at_ms: None,
        }
    }

    fn expiring(expires_at_ms: Option<u64>) -> Grant {
        Grant {
            expires_at_ms,
            ..grant("shop", &[Scope::Admin])
        }
    }

    #[test]
    fn a_scope_counts_in_the_namespaces_of_the_grant_only() {
        let [shop, other, all] =
            ["shop", "other", "*"].map(|name| NamespaceGrant::try_from(name).unwrap());
        let own = grant("shop", &[Scope::Publish, Scope::Read]);
        for (namespace, scope, outcome) in [
            (&shop, Scope::Publish, Ok(())),
            (&shop, Scope::Read, Ok(())),
            (
                &shop,
                Scope::Consume,
                Err(AccessError::ScopeMissing(Scope::Consume)),
            ),
            (
                &shop,
                Scope::Admin,
                Err(AccessError::ScopeMissing(Scope::Admin)),
            ),
            (&other, Scope::Publish, Err(AccessError::NamespaceForbidden)),
            (&all, Scope::Publish, Err(AccessError::NamespaceForbidden)),
            (&other, Scope::Admin, Err(AccessError::NamespaceForbidden)),
        ] {
            assert_eq!(
                own.check(namespace, scope),
                outcome,
                "{namespace} {scope:?}"
            );
        }
        let own = grant("*", &[Scope::Publish]);
        assert_eq!(own.check(&other, Scope::Publish), Ok(()));
        assert_eq!(own.check(&all, Scope::Publish), Ok(()));
        let missing = Err(AccessError::ScopeMissing(Scope::Read));
        assert_eq!(own.check(&other, Scope::Read), missing);
    }

    #[test]
    fn only_admin_can_create_keys() {
        let new = grant("shop", &[Scope::Publish]);
        let own = grant("*", &[Scope::Publish, Scope::Consume, Scope::Read]);
        let refused = Err(GrantError::Scope(Scope::Admin));
        assert_eq!(own.check_new_key(&new), refused);
        assert_eq!(grant("*", &Scope::ALL).check_new_key(&new), Ok(()));
    }

    #[test]
    fn a_new_key_is_within_the_namespaces_of_its_creator() {
        for (own, new, outcome) in [
            ("shop", "shop", Ok(())),
            ("shop", "shop2", Err(GrantError::Namespace)),
            ("shop", "*", Err(GrantError::Namespace)),
            ("*", "shop", Ok(())),
            ("*", "*", Ok(())),
        ] {
            let (own, new) = (grant(own, &Scope::ALL), grant(new, &Scope::ALL));
            assert_eq!(own.check_new_key(&new), outcome, "{own:?} {new:?}");
        }
    }

    #[test]
    fn a_new_key_is_for_the_pool_of_its_creator() {
        let own = grant("*", &Scope::ALL);
        let new = Grant {
            pool: "other".into(),
            ..own.clone()
        };
        assert_eq!(own.check_new_key(&new), Err(GrantError::Pool));
        assert_eq!(new.check_new_key(&own), Err(GrantError::Pool));
        assert_eq!(new.check_new_key(&new), Ok(()));
    }

    #[test]
    fn a_new_key_has_only_scopes_of_its_creator() {
        let own = grant("shop", &[Scope::Consume, Scope::Admin]);
        for scope in Scope::ALL {
            let outcome = match own.scopes.contains(scope) {
                true => Ok(()),
                false => Err(GrantError::Scope(scope)),
            };
            let new = grant("shop", &[scope]);
            assert_eq!(own.check_new_key(&new), outcome, "{scope:?}");
        }
        let new = grant("shop", &[Scope::Consume, Scope::Read, Scope::Admin]);
        assert_eq!(own.check_new_key(&new), Err(GrantError::Scope(Scope::Read)));
    }

    #[test]
    fn a_new_key_lasts_no_longer_than_its_creator() {
        for (own_ms, new_ms, outcome) in [
            (None, None, Ok(())),
            (None, Some(9), Ok(())),
            (Some(9), Some(9), Ok(())),
            (Some(9), Some(8), Ok(())),
            (Some(9), Some(10), Err(GrantError::Expiry)),
            (Some(9), None, Err(GrantError::Expiry)),
        ] {
            let checked = expiring(own_ms).check_new_key(&expiring(new_ms));
            assert_eq!(checked, outcome, "{own_ms:?} {new_ms:?}");
        }
    }
}
