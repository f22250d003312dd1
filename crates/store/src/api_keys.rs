//! API keys: a hash of the deployment. A field is the id of a key, its value the rest of the key, with the hash of its
//! secret in the place of the secret.

mod entry;
mod key_create;

use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use redis::Cmd;
use tidegate_core::{ApiKeyId, Namespace, keys};

pub use entry::{ApiKey, SecretHash};
pub use key_create::ApiKeyCreated;

use crate::error::StoreError;
use crate::store::Store;
use crate::table::Damaged;

/// Maximum number of keys in one look-up of [`ApiKeys::get_many`], and of its look-ups in flight.
const KEYS_PER_LOOK_UP: usize = 200;
const LOOK_UPS_IN_FLIGHT: usize = 16;

/// Fields of a hash and their values.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// The API keys stored in one deployment.
#[derive(Debug, Clone)]
pub struct ApiKeys {
    store: Store,
}

/// The answer of Redis about one id.
#[derive(Debug, Clone)]
pub struct ApiKeyAnswer {
    /// The entry, if there is one. A damaged key must be refused.
    pub entry: Option<Result<ApiKey, Damaged>>,
    /// The time on the clock of Redis, in ms since 1970. It decides whether the key has expired.
    pub now_ms: u64,
}

/// Some of the entries: one step of [`ApiKeys::list`].
#[derive(Debug, Clone)]
pub struct ApiKeyPage {
    /// Fields and entries, in no order.
    pub entries: Vec<(String, Result<ApiKey, Damaged>)>,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<u64>,
}

impl ApiKeys {
    /// The time on the clock of the Redis that stores the keys, in ms since 1970.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn now_ms(&self) -> Result<u64, StoreError> {
        self.store.server_now_ms(keys::API_KEYS).await
    }

    /// How many keys a namespace has, except those for all namespaces.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn count_of(&self, namespace: &Namespace) -> Result<u64, StoreError> {
        let listed = keys::api_keys_of(namespace.as_str());
        self.store.command(&Cmd::hlen(listed)).await
    }

    /// The entry with this id. The id of a damaged entry may have any form.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn get(&self, id: &str) -> Result<ApiKeyAnswer, StoreError> {
        let mut answers = answers_about(&self.store, &[id]).await?;
        let answer = answers.pop();
        answer.ok_or_else(|| StoreError::corrupt("no value in the reply to HMGET"))
    }

    /// The address of the server that stores the keys; `None` if no reachable server does.
    pub fn server(&self) -> Option<Arc<str>> {
        self.store.server_of_key(keys::API_KEYS)
    }

    /// The entries with these ids, as replies arrive: one item for each look-up of up to 200 ids.
    ///
    /// # Errors
    /// An item is an error if Redis is unavailable.
    pub fn get_many(
        &self,
        ids: &[ApiKeyId],
    ) -> impl Stream<Item = Result<Vec<(ApiKeyId, ApiKeyAnswer)>, StoreError>> + use<> {
        let look_ups = ids.chunks(KEYS_PER_LOOK_UP);
        let look_ups = look_ups.map(|ids| look_up(self.store.clone(), ids.to_vec()));
        let look_ups: Vec<_> = look_ups.collect();
        stream::iter(look_ups).buffer_unordered(LOOK_UPS_IN_FLIGHT)
    }

    /// A page of the API keys of one namespace. [`Self::list`] returns the keys of all.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn list_of(
        &self,
        namespace: &Namespace,
        cursor: u64,
        count: u16,
    ) -> Result<ApiKeyPage, StoreError> {
        let index = keys::api_keys_of(namespace.as_str());
        let (next, listed) = self.scan(&index, cursor, count).await?;
        let ids: Vec<Vec<u8>> = listed.into_iter().map(|(id, _)| id).collect();
        let (mut entries, mut deleted) = (Vec::with_capacity(ids.len()), Vec::new());
        if !ids.is_empty() {
            let get = Cmd::hmget(keys::API_KEYS, &ids);
            let values: Vec<Option<Vec<u8>>> = self.store.large_command(&get).await?;
            for (id, value) in ids.into_iter().zip(values) {
                match value {
                    Some(value) => entries.push(read(&id, &value)),
                    None => deleted.push(id),
                }
            }
        }
        // Keys that were damaged, or deleted by a process that died in between, would count for ever.
        if !deleted.is_empty() {
            let _: u64 = self.store.command(&Cmd::hdel(&index, &deleted)).await?;
        }
        Ok(ApiKeyPage { entries, next })
    }

    /// Some of the entries, from a cursor on: 0 for the first page, then the cursor of the page before. A page has
    /// about `count` entries, fewer at times, up to a few more than 128 if there are so few in all
    /// (`hash-max-listpack-entries` of the server). Keys that exist all the time are on at least one page; when keys
    /// are created or deleted meanwhile, some may be on two.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn list(&self, cursor: u64, count: u16) -> Result<ApiKeyPage, StoreError> {
        let (next, fields) = self.scan(keys::API_KEYS, cursor, count).await?;
        let entries = fields.iter().map(|(id, value)| read(id, value)).collect();
        Ok(ApiKeyPage { entries, next })
    }

    /// About `count` fields of a hash, and where the next ones begin.
    async fn scan(
        &self,
        hash: &str,
        cursor: u64,
        count: u16,
    ) -> Result<(Option<u64>, Fields), StoreError> {
        let mut scan = redis::cmd("HSCAN");
        scan.arg(hash).arg(cursor).arg("COUNT").arg(count);
        let (next, fields): (u64, Fields) = self.store.large_command(&scan).await?;
        Ok((Some(next).filter(|cursor| *cursor != 0), fields))
    }

    /// Removes the entry with this id, damaged or not. Returns whether there was one.
    ///
    /// # Errors
    /// Redis is unavailable. The entry may have been removed.
    pub async fn delete(&self, id: &str) -> Result<bool, StoreError> {
        let entry = self.get(id).await?.entry;
        let was_there = self.store.command(&Cmd::hdel(keys::API_KEYS, id)).await?;
        if let Some(Ok(key)) = entry {
            let listed = keys::api_keys_of(key.namespaces.as_str());
            let _: bool = self.store.command(&Cmd::hdel(listed, id)).await?;
        }
        Ok(was_there)
    }
}

async fn look_up(
    store: Store,
    ids: Vec<ApiKeyId>,
) -> Result<Vec<(ApiKeyId, ApiKeyAnswer)>, StoreError> {
    let texts: Vec<&str> = ids.iter().map(ApiKeyId::as_str).collect();
    let answers = answers_about(&store, &texts).await?;
    Ok(ids.into_iter().zip(answers).collect())
}

/// One answer for each id, in their order.
async fn answers_about(store: &Store, ids: &[&str]) -> Result<Vec<ApiKeyAnswer>, StoreError> {
    let mut look_up = redis::pipe();
    look_up.cmd("TIME").hmget(keys::API_KEYS, ids);
    let reply = store.read_small("HMGET", keys::API_KEYS, &look_up).await?;
    let ((seconds, micros), values): ((u64, u64), Vec<Option<Vec<u8>>>) = reply;
    let now_ms = seconds * 1000 + micros / 1000;
    let answer = |value: Option<Vec<u8>>| ApiKeyAnswer {
        entry: value.map(|value| ApiKey::read(&value)),
        now_ms,
    };
    Ok(values.into_iter().map(answer).collect())
}

/// The id and the key of a field. The id of a damaged entry may have any form.
fn read(id: &[u8], value: &[u8]) -> (String, Result<ApiKey, Damaged>) {
    (
        String::from_utf8_lossy(id).into_owned(),
        ApiKey::read(value),
    )
}

impl Store {
    /// The API keys stored in this deployment.
    pub fn api_keys(&self) -> ApiKeys {
        let store = self.clone();
        ApiKeys { store }
    }
}
