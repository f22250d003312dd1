//! Authentication of requests of the native API: who a client is, and its rights.
//!
//! A credential is an API key, or a token of the lmstfy wire. A text that begins as an API key is never taken for a
//! token, so that a key with a typing error is not looked up among the tokens.

use std::sync::Arc;

use tidegate_core::{ApiKeyId, Namespace, NamespaceGrant, Scope, Scopes};
use tokio::time::Instant;

use crate::access::api_keys::KeyText;
use crate::access::credential::Credential;
use crate::access::grant::Grant;
use crate::access::limits::{LimitedAction, Permit};
use crate::access::tokens::split_token;
use crate::access::tokens::token_key::TokenKey;
use crate::engine::Engine;
use crate::error::{AccessError, EngineError};
use crate::pool::Pool;

/// An authenticated client.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The pool of its queues.
    pub pool: Arc<Pool>,
    /// Its rights. For an lmstfy token: publish and consume in its namespace.
    pub grant: Grant,
    /// The id of its API key; `None` if it has another credential.
    pub key_id: Option<ApiKeyId>,
    /// For [`crate::WaitLimits::take`], so that a revocation ends its waits.
    pub credential: Credential,
    /// When its credential expires, if it does. For the same.
    pub ends_at: Option<Instant>,
}

impl Engine {
    /// Authenticates a client by the text of its credential: an API key, or a token as `[pool:]token`. A token is
    /// looked up in the namespace of the request, and gives no access to a request for all namespaces. For an API key
    /// the caller has to check `namespaces` with [`Grant::check`]. With `skip_token_checks` any text or none gives
    /// access to each namespace.
    ///
    /// # Errors
    /// The credential is missing or invalid, or cannot be checked now.
    pub async fn authenticate(
        &self,
        text: &str,
        namespaces: &NamespaceGrant,
    ) -> Result<Principal, AccessError> {
        if self.skip_token_checks {
            return self.unchecked(text, one(namespaces)?);
        }
        if text.is_empty() {
            return Err(AccessError::KeyMissing);
        }
        if KeyText::has_prefix(text) {
            self.authenticate_key(text).await
        } else {
            self.authenticate_token(text, one(namespaces)?).await
        }
    }

    /// An operator, whom the admin port has authenticated: all uses of all namespaces of the pool. The empty name means
    /// the default pool; `None` if the pool is not configured.
    pub fn operator(&self, pool: &str) -> Option<Principal> {
        let pool = self.pool_or_default(pool)?;
        Some(Principal {
            pool: Arc::clone(pool),
            grant: Grant {
                pool: Arc::clone(&pool.name),
                namespaces: NamespaceGrant::All,
                scopes: Scopes::all(),
                expires_at_ms: None,
            },
            key_id: None,
            credential: Credential::Listener("admin"),
            ends_at: None,
        })
    }

    /// Takes a unit of the rate limit of a client, for one request. API keys have no limit.
    ///
    /// # Errors
    /// The errors of [`crate::RateLimiter::permit`].
    pub async fn permit(
        &self,
        credential: &Credential,
        action: LimitedAction,
    ) -> Result<Permit, EngineError> {
        match credential {
            Credential::Token(holder) => {
                let token = TokenKey::of_holder(holder);
                self.limits.permit(token, action).await
            }
            Credential::Key(_) | Credential::Listener(_) => Ok(Permit::UNLIMITED),
        }
    }

    async fn authenticate_key(&self, text: &str) -> Result<Principal, AccessError> {
        let text = KeyText::parse(text).ok_or(AccessError::KeyInvalid)?;
        let known = self
            .keys
            .valid(text)
            .await?
            .ok_or(AccessError::KeyInvalid)?;
        let key = &known.key;
        let Some(pool) = self.pool(&key.pool) else {
            tracing::debug!(key = %text.id, pool = %key.pool, "refused an API key of a pool that is not configured");
            return Err(AccessError::KeyInvalid);
        };
        Ok(Principal {
            pool: Arc::clone(pool),
            grant: Grant {
                pool: Arc::clone(&pool.name),
                namespaces: key.namespaces.clone(),
                scopes: key.scopes,
                expires_at_ms: key.expires_at_ms,
            },
            key_id: Some(text.id),
            credential: text.id.into(),
            ends_at: known.ends_at,
        })
    }

    async fn authenticate_token(
        &self,
        text: &str,
        namespace: &Namespace,
    ) -> Result<Principal, AccessError> {
        let (pool, token) = split_token(text);
        let pool = self.pool_or_default(pool);
        let pool = pool.ok_or(AccessError::KeyInvalid)?;
        if !self.tokens.is_valid(&pool.name, namespace, token).await? {
            return Err(AccessError::KeyInvalid);
        }
        let scopes = [Scope::Publish, Scope::Consume].into_iter().collect();
        let namespaces = NamespaceGrant::One(namespace.clone());
        Ok(self.with_token(pool, namespace, token, namespaces, scopes))
    }

    fn unchecked(&self, text: &str, namespace: &Namespace) -> Result<Principal, AccessError> {
        let (pool, token) = split_token(text);
        let pool = self.pool_or_default(pool);
        let pool = pool.ok_or(AccessError::KeyInvalid)?;
        Ok(self.with_token(pool, namespace, token, NamespaceGrant::All, Scopes::all()))
    }

    fn with_token(
        &self,
        pool: &Arc<Pool>,
        namespace: &Namespace,
        token: &str,
        namespaces: NamespaceGrant,
        scopes: Scopes,
    ) -> Principal {
        let holder = self.tokens.holder(&pool.name, namespace, token);
        Principal {
            pool: Arc::clone(pool),
            grant: Grant {
                pool: Arc::clone(&pool.name),
                namespaces,
                scopes,
                expires_at_ms: None,
            },
            key_id: None,
            credential: holder.into(),
            ends_at: None,
        }
    }
}

/// The namespace of a request that is for one.
fn one(namespaces: &NamespaceGrant) -> Result<&Namespace, AccessError> {
    match namespaces {
        NamespaceGrant::One(namespace) => Ok(namespace),
        NamespaceGrant::All => Err(AccessError::NamespaceForbidden),
    }
}
