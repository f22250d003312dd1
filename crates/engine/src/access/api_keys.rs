//! API keys, with a cache of the keys that were looked up.

mod key_text;

use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use tidegate_core::{ApiKeyId, Namespace};
use tidegate_daemon::LogLimit;
use tidegate_store::{
    ApiKey, ApiKeyAnswer, ApiKeyCreated, ApiKeyPage, ApiKeys, Damaged, StoreError,
};
use tokio::time::{Duration, Instant};

pub use key_text::generate_key_id;
pub(crate) use key_text::{KeyText, generate_key, generate_key_with_id};

use crate::access::tokens::last_known::{LastKnown, LookUp};
use crate::access::tokens::memory::CachedName;
use crate::error::EngineError;

/// The bytes of a cached key and its texts, rounded up. Only the name of its pool has no bound.
const CACHED_KEY_BYTES: usize = 1024;

/// The API keys, cached. A deleted key remains valid in other processes for up to a second; in a process that cannot
/// reach the Redis of the keys, until it can again, and for an hour at most. A key is refused from its expiry on in any
/// case.
#[derive(Debug)]
pub struct ApiKeyCache {
    keys: ApiKeys,
    valid: LastKnown<ApiKeys>,
}

/// A key as it was when Redis was asked.
#[derive(Debug)]
pub(crate) struct CachedApiKey {
    pub(crate) key: ApiKey,
    /// When it expires, on the local clock: computed from the clock of Redis when Redis was asked.
    pub(crate) ends_at: Option<Instant>,
}

impl CachedApiKey {
    /// A key that Redis, whose clock showed `now_ms`, was asked for at `asked_at`.
    fn new(key: ApiKey, now_ms: u64, asked_at: Instant) -> Self {
        // A time that no clock reaches is no expiry.
        let ends_at = key.expires_at_ms.and_then(|end_ms| {
            asked_at.checked_add(Duration::from_millis(end_ms.saturating_sub(now_ms)))
        });
        Self { key, ends_at }
    }

    fn is_expired(&self) -> bool {
        self.ends_at.is_some_and(|end| end <= Instant::now())
    }
}

impl ApiKeyCache {
    /// How many keys a namespace has, except those for all namespaces.
    pub(crate) async fn count_of(&self, namespace: &Namespace) -> Result<u64, StoreError> {
        self.keys.count_of(namespace).await
    }

    pub(crate) fn new(keys: ApiKeys) -> Self {
        Self {
            valid: LastKnown::new(keys.clone()),
            keys,
        }
    }

    /// The key of this text, if it is stored, has this secret, and has not expired.
    ///
    /// # Errors
    /// Redis is unavailable and there is no answer of the last hour.
    pub(crate) async fn valid(
        &self,
        text: KeyText<'_>,
    ) -> Result<Option<Arc<CachedApiKey>>, EngineError> {
        let known = self.valid.get(text.id).await;
        let known = known.map_err(|error| EngineError::of_failed_check(&error))?;
        Ok(known.filter(|known| text.matches(known.key.secret_hash) && !known.is_expired()))
    }

    /// The address of the server that stores the keys; `None` = unknown.
    pub(crate) fn server(&self) -> Option<Arc<str>> {
        self.keys.server()
    }

    /// Looks up keys, and yields the invalid keys as the answers of Redis arrive. They are removed from
    /// the cache.
    pub(crate) fn revoked(
        &self,
        ids: &[ApiKeyId],
    ) -> impl Stream<Item = Result<Vec<ApiKeyId>, StoreError>> {
        let answers = self.keys.get_many(ids);
        answers.map(|answers| {
            let invalid = answers?.into_iter().filter_map(|(id, answer)| {
                let now_ms = answer.now_ms;
                let valid = key_in(id, answer).filter(|key| !key.is_expired(now_ms));
                valid.is_none().then_some(id)
            });
            let invalid: Vec<ApiKeyId> = invalid.collect();
            invalid.iter().for_each(|id| self.valid.forget(*id));
            Ok(invalid)
        })
    }

    /// The time on the clock of the Redis that stores the keys, in ms since 1970.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn now_ms(&self) -> Result<u64, EngineError> {
        Ok(self.keys.now_ms().await?)
    }

    /// Adds a key, unless a key has its id.
    pub(crate) async fn create(
        &self,
        id: ApiKeyId,
        key: &ApiKey,
    ) -> Result<ApiKeyCreated, EngineError> {
        Ok(self.keys.create(id, key).await?)
    }

    /// Reads the entry with this id from Redis, if there is one. The id of a damaged entry may have any form.
    pub async fn get(&self, id: &str) -> Result<Option<Result<ApiKey, Damaged>>, EngineError> {
        Ok(self.keys.get(id).await?.entry)
    }

    /// Reads some of the entries from Redis, from a cursor on: 0 for the first page. A page has about `count` entries,
    /// as [`ApiKeys::list`] describes.
    pub async fn list(&self, cursor: u64, count: u16) -> Result<ApiKeyPage, EngineError> {
        Ok(self.keys.list(cursor, count).await?)
    }

    /// Reads a page of the API keys of one namespace. [`Self::list`] reads the keys of all.
    pub async fn list_of(
        &self,
        namespace: &Namespace,
        cursor: u64,
        count: u16,
    ) -> Result<ApiKeyPage, EngineError> {
        Ok(self.keys.list_of(namespace, cursor, count).await?)
    }

    /// Removes an entry, and returns whether there was one. The caller must end current waits.
    pub(crate) async fn delete(&self, id: &str) -> Result<bool, EngineError> {
        let was_there = self.keys.delete(id).await?;
        if let Ok(id) = ApiKeyId::try_from(id) {
            self.valid.forget(id);
        }
        Ok(was_there)
    }
}

/// The key in an answer. A damaged key is logged and refused; nothing depends on its state before.
fn key_in(id: ApiKeyId, answer: ApiKeyAnswer) -> Option<ApiKey> {
    static LOG_LIMIT: LogLimit = LogLimit::every(Duration::from_secs(1));
    match answer.entry? {
        Ok(key) => Some(key),
        Err(damaged) => {
            // Each request with the key finds the damage again.
            if LOG_LIMIT.is_due() {
                let reason = damaged.reason;
                tracing::error!(key = %id, reason, "refused an API key whose stored entry is damaged: delete the key and create another one");
            }
            None
        }
    }
}

/// Only keys that can be read are cached.
impl LookUp for ApiKeys {
    const SUBJECT: &'static str = "keys";

    type Name = ApiKeyId;

    type Answer = Arc<CachedApiKey>;

    async fn look_up(&self, id: &ApiKeyId) -> Result<Option<Self::Answer>, StoreError> {
        let asked_at = Instant::now();
        let answer = self.get(id.as_str()).await?;
        let now_ms = answer.now_ms;
        let key = key_in(*id, answer);
        Ok(key.map(|key| Arc::new(CachedApiKey::new(key, now_ms, asked_at))))
    }
}

impl CachedName for ApiKeyId {
    fn heap_bytes(&self) -> usize {
        CACHED_KEY_BYTES
    }
}
