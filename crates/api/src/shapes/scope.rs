//! Scopes of API keys.

use tidegate_api_types::keys::KeyScope;
use tidegate_core::Scope;

/// A scope as the engine takes it.
pub(crate) const fn stored_scope(scope: KeyScope) -> Scope {
    match scope {
        KeyScope::Publish => Scope::Publish,
        KeyScope::Consume => Scope::Consume,
        KeyScope::Read => Scope::Read,
        KeyScope::Admin => Scope::Admin,
    }
}
