//! Access tokens: the strings that grant access to a namespace of a pool.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use redis::Cmd;
use tidegate_core::{Namespace, keys};

use crate::error::StoreError;
use crate::limits::LimitHolder;
use crate::store::Store;

/// Maximum number of tokens in one lookup of [`Tokens::missing`], and of lookups of one call in flight.
const TOKENS_PER_LOOK_UP: usize = 200;
const LOOK_UPS_IN_FLIGHT: usize = 64;

/// The access tokens stored in one deployment, by pool and namespace.
#[derive(Debug, Clone)]
pub struct Tokens {
    store: Store,
}

/// The outcome of [`Tokens::create`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum TokenCreated {
    /// The token is valid from now on.
    Done,
    /// The token was valid before; nothing changed.
    AlreadyExists,
}

impl Tokens {
    /// Adds a token.
    ///
    /// # Errors
    /// Redis is unavailable. The token may have been added.
    pub async fn create(
        &self,
        pool: &str,
        namespace: &Namespace,
        token: &str,
        description: &str,
    ) -> Result<TokenCreated, StoreError> {
        let key = keys::tokens(pool, namespace.as_str());
        let add = Cmd::hset_nx(key, token, description);
        match self.store.command(&add).await? {
            true => Ok(TokenCreated::Done),
            false => Ok(TokenCreated::AlreadyExists),
        }
    }

    /// Whether a token is valid for its namespace and pool.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn exists(&self, token: &LimitHolder) -> Result<bool, StoreError> {
        let ask = Cmd::hexists(key_of(token), token.parts().2);
        self.store.command(&ask).await
    }

    /// Groups tokens by the address of the server that stores them; `None` = no reachable server does. With a lookup
    /// for each group, a server that does not reply delays the lookups of its own tokens only.
    pub fn by_server(
        &self,
        tokens: Vec<Arc<LimitHolder>>,
    ) -> HashMap<Option<Arc<str>>, Vec<Arc<LimitHolder>>> {
        let mut by_server: HashMap<_, Vec<_>> = HashMap::new();
        for token in tokens {
            let server = self.store.inner.link.server_of(&key_of(&token));
            let address = server.map(|server| Arc::clone(&server.address));
            by_server.entry(address).or_default().push(token);
        }
        by_server
    }

    /// The invalid ones among these tokens, as replies arrive: one item for each lookup. Up to 200 tokens share a
    /// lookup; on a cluster they must belong to one namespace in one pool.
    ///
    /// # Errors
    /// An item is an error if Redis is unavailable. The tokens of that lookup may be valid or not.
    pub fn missing(
        &self,
        mut tokens: Vec<Arc<LimitHolder>>,
    ) -> impl Stream<Item = Result<Vec<Arc<LimitHolder>>, StoreError>> + use<> {
        tokens.sort_unstable_by(|one, other| one.parts().cmp(&other.parts()));
        let is_cluster = self.store.inner.link.is_cluster();
        let shares = |one: &Arc<_>, other: &Arc<_>| !is_cluster || key_of(one) == key_of(other);
        let look_ups = tokens
            .chunk_by(shares)
            .flat_map(|group| group.chunks(TOKENS_PER_LOOK_UP))
            .map(|tokens| missing_of(self.store.clone(), tokens.to_vec()));
        let look_ups: Vec<_> = look_ups.collect();
        stream::iter(look_ups).buffer_unordered(LOOK_UPS_IN_FLIGHT)
    }

    /// Removes a token. It is no error if it does not exist.
    ///
    /// # Errors
    /// Redis is unavailable. The token may have been removed.
    pub async fn delete(
        &self,
        pool: &str,
        namespace: &Namespace,
        token: &str,
    ) -> Result<(), StoreError> {
        let remove = Cmd::hdel(keys::tokens(pool, namespace.as_str()), token);
        self.store.command(&remove).await
    }

    /// All tokens of a namespace with their descriptions, in the order of the tokens.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn list(
        &self,
        pool: &str,
        namespace: &Namespace,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let all = Cmd::hgetall(keys::tokens(pool, namespace.as_str()));
        let mut tokens: Vec<(String, String)> = self.store.command(&all).await?;
        tokens.sort();
        Ok(tokens)
    }
}

fn key_of(token: &LimitHolder) -> String {
    let (pool, namespace, _) = token.parts();
    keys::tokens(pool, namespace)
}

/// The invalid ones among these tokens. On a cluster their keys must be in one slot.
async fn missing_of(
    store: Store,
    tokens: Vec<Arc<LimitHolder>>,
) -> Result<Vec<Arc<LimitHolder>>, StoreError> {
    let mut look_up = redis::pipe();
    for token in &tokens {
        look_up.hexists(key_of(token), token.parts().2);
    }
    let Some(key) = tokens.first().map(|token| key_of(token)) else {
        return Ok(tokens);
    };
    let there: Vec<bool> = store.read_small("HEXISTS", &key, &look_up).await?;
    let missing = tokens.into_iter().zip(there).filter(|(_, there)| !there);
    Ok(missing.map(|(token, _)| token).collect())
}

impl Store {
    /// The access tokens stored in this deployment.
    pub fn tokens(&self) -> Tokens {
        let store = self.clone();
        Tokens { store }
    }
}
