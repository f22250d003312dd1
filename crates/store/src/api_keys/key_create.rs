//! Creating API keys.

use tidegate_core::{ApiKeyId, NamespaceGrant, keys};

use super::{ApiKey, ApiKeys};
use crate::error::StoreError;
use crate::namespace_limits::{full, max_argument};
use crate::script::{LazyScript, script};

static KEY_CREATE: LazyScript = script!("key_create");

/// The outcome of [`ApiKeys::create`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum ApiKeyCreated {
    /// The key is valid from now on.
    Done,
    /// There is a key with this id; nothing changed.
    AlreadyExists,
}

impl ApiKeys {
    /// Adds a key. Keys for all namespaces have no limit.
    ///
    /// # Errors
    /// The namespace has as many keys as it may, and nothing changed; or Redis is unavailable, and the key may have
    /// been added.
    pub async fn create(&self, id: ApiKeyId, key: &ApiKey) -> Result<ApiKeyCreated, StoreError> {
        let max = match &key.namespaces {
            NamespaceGrant::All => None,
            NamespaceGrant::One(namespace) => self.store.namespace_limits(namespace).api_keys,
        };
        let listed = keys::api_keys_of(key.namespaces.as_str());
        let call = self
            .store
            .call_on_both(&KEY_CREATE, keys::API_KEYS.to_owned(), &listed)
            .arg(id.as_str())
            .arg(key.to_text())
            .arg(max_argument(max));
        let reply = call.send().await?;
        match reply.token() {
            "ok" => Ok(ApiKeyCreated::Done),
            "exists" => Ok(ApiKeyCreated::AlreadyExists),
            "full" => Err(full("api_keys", max)),
            _ => reply.unknown(),
        }
    }
}
