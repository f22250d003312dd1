//! Access tokens: which strings open a namespace of a pool.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use tidegate_core::{Namespace, keys};

use crate::{LimitHolder, Store, StoreError};

/// Tokens in one look-up of [`Tokens::missing`], and look-ups of one call in flight.
const TOKENS_PER_LOOK_UP: usize = 200;
const LOOK_UPS_IN_FLIGHT: usize = 64;

/// The access tokens kept in one deployment, by pool and namespace.
#[derive(Debug, Clone)]
pub struct Tokens {
    store: Store,
}

/// What became of a new token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum TokenCreated {
    /// It opens the namespace from now on.
    Done,
    /// It did so before; nothing changed.
    AlreadyExists,
}

impl Tokens {
    pub(crate) const fn new(store: Store) -> Self {
        Self { store }
    }

    fn command(name: &str, pool: &str, namespace: &Namespace) -> redis::Cmd {
        let mut command = redis::cmd(name);
        command.arg(keys::tokens(pool, namespace.as_str()));
        command
    }

    /// Adds a token.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn create(
        &self,
        pool: &str,
        namespace: &Namespace,
        token: &str,
        description: &str,
    ) -> Result<TokenCreated, StoreError> {
        let mut add = Self::command("HSETNX", pool, namespace);
        let added: bool = self.store.command(add.arg(token).arg(description)).await?;
        Ok(if added {
            TokenCreated::Done
        } else {
            TokenCreated::AlreadyExists
        })
    }

    /// Whether a token opens its namespace.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn exists(&self, token: &LimitHolder) -> Result<bool, StoreError> {
        let mut ask = redis::cmd("HEXISTS");
        ask.arg(key_of(token)).arg(token.parts().2);
        self.store.command(&ask).await
    }

    /// These tokens by the address of the server that stores them; `None` = no reachable server does. A server that does
    /// not answer then delays look-ups of its own tokens only.
    #[must_use]
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

    /// Those of these tokens that open nothing, as the answers come: an item for each look-up. Some hundred tokens
    /// share a look-up; on a cluster only those of one namespace in one pool do.
    ///
    /// # Errors
    /// An item is an error where Redis is unavailable. Nothing is known of the tokens of that look-up then.
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

    /// Removes a token, whether it was there or not.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn delete(
        &self,
        pool: &str,
        namespace: &Namespace,
        token: &str,
    ) -> Result<(), StoreError> {
        let mut remove = Self::command("HDEL", pool, namespace);
        self.store.command(remove.arg(token)).await
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
        let all = Self::command("HGETALL", pool, namespace);
        let mut tokens: Vec<(String, String)> = self.store.command(&all).await?;
        tokens.sort();
        Ok(tokens)
    }
}

fn key_of(token: &LimitHolder) -> String {
    let (pool, namespace, _) = token.parts();
    keys::tokens(pool, namespace)
}

/// Those of these tokens that open nothing. On a cluster their keys must be in one slot.
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
    let there: Vec<bool> = store.small_look_up("HEXISTS", &key, &look_up).await?;
    let missing = tokens.into_iter().zip(there).filter(|(_, there)| !there);
    Ok(missing.map(|(token, _)| token).collect())
}
