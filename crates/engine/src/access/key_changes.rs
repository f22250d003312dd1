//! Creates and deletes API keys.

use tidegate_core::ApiKeyId;
use tidegate_core::v1::values::Timestamp;
use tidegate_store::{ApiKey, ApiKeyCreated};

use crate::access::api_keys::{KeyText, generate_key, generate_key_with_id};
use crate::access::grant::Grant;
use crate::engine::Engine;
use crate::error::EngineError;

/// Maximum length of the description of a key, in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 255;

/// A key to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApiKey {
    /// The access that the key gives. Without an expiry it lasts until it is deleted.
    pub grant: Grant,
    /// A text for operators: 1 to [`DESCRIPTION_BYTES_MAX`] bytes.
    pub description: String,
}

#[derive(Debug)]
pub struct CreatedApiKey {
    pub id: ApiKeyId,
    /// The whole key, with its secret, which is not stored.
    pub text: String,
    /// The stored key.
    pub key: ApiKey,
}

/// Why a key was not created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreateKeyError {
    /// The pool is not configured.
    #[error("there is no such pool")]
    PoolNotFound,
    /// The new key has no scope.
    #[error("scopes should have at least one of publish, consume, read, admin")]
    NoScope,
    /// The description is empty or too long.
    #[error("description should have 1 to {DESCRIPTION_BYTES_MAX} bytes")]
    Description,
    /// The text that the caller chose is no text of a key.
    #[error(
        "secret should be tg_ID_SECRET: 12 and 26 letters A-Z and digits, best taken from a random source"
    )]
    NotAKey,
    /// There is a key with this id; nothing changed.
    #[error("there is a key with this id")]
    AlreadyExists,
    /// The expiry is not in the future.
    #[error("expires_at must be later than the clock of Redis, {}", Timestamp::saturating(*.now_ms))]
    Expired {
        /// The time on the clock of Redis, in ms since 1970.
        now_ms: u64,
    },
    /// Redis failed. The key may have been stored, but its secret is lost.
    #[error(transparent)]
    Failed(#[from] EngineError),
}

impl Engine {
    /// Creates a key. It is valid at once, in all processes. The caller has to check that it may be created: for a
    /// request with a key, [`Grant::check_new_key`].
    ///
    /// # Errors
    /// The new key is invalid, or Redis failed.
    pub async fn create_key(&self, new: NewApiKey) -> Result<CreatedApiKey, CreateKeyError> {
        let now_ms = self.check_new(&new).await?;
        loop {
            // Another key with the same random id is not replaced.
            match self.store_key(generate_key(), &new, now_ms).await {
                Err(CreateKeyError::AlreadyExists) => {}
                stored => return stored,
            }
        }
    }

    /// Creates a key with an id that the caller got from [`generate_key_id`](crate::generate_key_id), so that a request
    /// that is sent twice creates one key. Otherwise as [`Self::create_key`].
    ///
    /// # Errors
    /// The errors of [`Self::create_key`]; or there is a key with this id.
    pub async fn create_key_once(
        &self,
        id: ApiKeyId,
        new: NewApiKey,
    ) -> Result<CreatedApiKey, CreateKeyError> {
        self.create_chosen_key(generate_key_with_id(id.as_str()), new)
            .await
    }

    /// Creates a key whose text the caller has chosen, so that a deployment that is set up again has the keys that its
    /// clients have. Otherwise as [`Self::create_key`].
    ///
    /// # Errors
    /// The errors of [`Self::create_key`]; or the text is no text of a key, or there is a key with its id.
    pub async fn create_chosen_key(
        &self,
        text: String,
        new: NewApiKey,
    ) -> Result<CreatedApiKey, CreateKeyError> {
        let now_ms = self.check_new(&new).await?;
        self.store_key(text, &new, now_ms).await
    }

    /// Checks what a key gives access to. Returns the time on the clock of Redis, in ms since 1970.
    async fn check_new(&self, new: &NewApiKey) -> Result<u64, CreateKeyError> {
        let NewApiKey { grant, description } = new;
        if self.pool(&grant.pool).is_none() {
            return Err(CreateKeyError::PoolNotFound);
        }
        if grant.scopes.is_empty() {
            return Err(CreateKeyError::NoScope);
        }
        if !(1..=DESCRIPTION_BYTES_MAX).contains(&description.len()) {
            return Err(CreateKeyError::Description);
        }
        let now_ms = self.keys.now_ms().await?;
        if grant.expires_at_ms.is_some_and(|end_ms| end_ms <= now_ms) {
            return Err(CreateKeyError::Expired { now_ms });
        }
        Ok(now_ms)
    }

    /// Stores a key with this text.
    async fn store_key(
        &self,
        text: String,
        new: &NewApiKey,
        now_ms: u64,
    ) -> Result<CreatedApiKey, CreateKeyError> {
        let NewApiKey { grant, description } = new;
        let parts = KeyText::parse(&text).ok_or(CreateKeyError::NotAKey)?;
        let (id, key) = (parts.id, stored(grant, description, parts, now_ms));
        if self.keys.create(id, &key).await? == ApiKeyCreated::AlreadyExists {
            return Err(CreateKeyError::AlreadyExists);
        }
        let (namespaces, scopes) = (grant.namespaces.as_str(), grant.scopes);
        tracing::info!(key = %id, pool = %grant.pool, namespace = namespaces, %scopes, "created an API key");
        Ok(CreatedApiKey { id, text, key })
    }

    /// Deletes a key, or a damaged entry, and returns whether there was one. The key is refused here at once, and ends
    /// the waits with it; in other processes both happen within a second.
    ///
    /// # Errors
    /// Redis failed. The key may have been deleted.
    pub async fn delete_key(&self, id: &str) -> Result<bool, EngineError> {
        let was_there = self.keys.delete(id).await?;
        if was_there {
            tracing::info!(key = id, "deleted an API key");
        }
        if let Ok(id) = ApiKeyId::try_from(id) {
            self.end_waits(&id.into());
        }
        Ok(was_there)
    }
}

fn stored(grant: &Grant, description: &str, text: KeyText<'_>, now_ms: u64) -> ApiKey {
    ApiKey {
        secret_hash: text.secret_hash(),
        pool: (&*grant.pool).into(),
        namespaces: grant.namespaces.clone(),
        scopes: grant.scopes,
        description: description.into(),
        created_at_ms: now_ms,
        expires_at_ms: grant.expires_at_ms,
    }
}
