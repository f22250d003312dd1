//! Scopes of API keys.

use tidegate_core::Scope;
use tidegate_core::v1::keys::KeyScope;

/// A scope as the engine takes it.
pub(crate) const fn stored_scope(scope: KeyScope) -> Scope {
    match scope {
        KeyScope::Publish => Scope::Publish,
        KeyScope::Consume => Scope::Consume,
        KeyScope::Read => Scope::Read,
        KeyScope::Admin => Scope::Admin,
    }
}
