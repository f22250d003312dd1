//! Who may do what: a token opens one namespace of one pool.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use rand::RngExt;
use tidegate_core::Namespace;
use tidegate_store::{StoreError, TokenCreated, Tokens};

/// A deleted token works for this much longer, anywhere.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);
const REMEMBERED_MAX: u64 = 100_000;

const GENERATED_LENGTH: usize = 26;
const ALPHABET: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Pool, namespace and token, kept apart so that no two triples are ever the same key.
type Key = (Arc<str>, Namespace, String);

/// The tokens, and a short memory of those that were found good.
#[derive(Debug)]
pub(crate) struct TokenDesk {
    tokens: Tokens,
    good: Cache<Key, bool>,
}

impl TokenDesk {
    pub(crate) fn new(tokens: Tokens) -> Self {
        let good = Cache::builder()
            .max_capacity(REMEMBERED_MAX)
            .time_to_live(REMEMBERED_FOR)
            .build();
        Self { tokens, good }
    }

    /// Whether a token opens a namespace. Only a yes is remembered: a new token works at once.
    pub(crate) async fn opens(
        &self,
        pool: &Arc<str>,
        namespace: &Namespace,
        token: &str,
    ) -> Result<bool, StoreError> {
        let key = (Arc::clone(pool), namespace.clone(), token.to_owned());
        if self.good.get(&key).await.is_some() {
            return Ok(true);
        }
        let good = self.tokens.exists(pool, namespace, token).await?;
        if good {
            self.good.insert(key, true).await;
        }
        Ok(good)
    }

    /// Makes a token valid.
    pub(crate) async fn create(
        &self,
        pool: &str,
        namespace: &Namespace,
        token: &str,
        description: &str,
    ) -> Result<TokenCreated, StoreError> {
        self.tokens
            .create(pool, namespace, token, description)
            .await
    }

    /// Makes a token invalid: here at once, in other processes within a second.
    pub(crate) async fn delete(
        &self,
        pool: &Arc<str>,
        namespace: &Namespace,
        token: &str,
    ) -> Result<(), StoreError> {
        self.tokens.delete(pool, namespace, token).await?;
        let key = (Arc::clone(pool), namespace.clone(), token.to_owned());
        self.good.invalidate(&key).await;
        Ok(())
    }

    /// The tokens of a namespace and their descriptions.
    pub(crate) async fn list(
        &self,
        pool: &str,
        namespace: &Namespace,
    ) -> Result<Vec<(String, String)>, StoreError> {
        self.tokens.list(pool, namespace).await
    }
}

/// A token that cannot be guessed: 134 bits from a cryptographic generator.
pub(crate) fn generate() -> String {
    let mut random = rand::rng();
    (0..GENERATED_LENGTH)
        .map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_tokens_have_26_characters_and_differ() {
        let token = generate();
        assert_eq!(token.len(), 26);
        assert!(token.bytes().all(|byte| ALPHABET.contains(&byte)));
        assert_ne!(token, generate());
    }
}
