//! Who may do what: a token opens one namespace of one pool.

mod stored;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use rand::RngExt;
use tidegate_core::Namespace;
use tidegate_store::{LimitHolder, StoreError, TokenCreated, Tokens};

pub(crate) use stored::TokenForm;

use crate::last_known::LastKnown;
use crate::token_memory::TokenName;

const GENERATED_LENGTH: usize = 26;
const ALPHABET: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The tokens, and a memory of those that were found good. A deleted token works in other processes for a second
/// longer; where they cannot reach the Redis of the tokens, until they can, and for an hour at most.
#[derive(Debug)]
pub(crate) struct TokenDesk {
    tokens: Tokens,
    form: TokenForm,
    good: LastKnown<()>,
}

impl TokenDesk {
    pub(crate) fn new(tokens: Tokens, form: TokenForm) -> Self {
        Self {
            tokens,
            form,
            good: LastKnown::new("tokens"),
        }
    }

    /// What is stored of a token that somebody presents.
    pub(crate) fn stored<'a>(&self, token: &'a str) -> Cow<'a, str> {
        self.form.stored(token)
    }

    /// Whether a token opens a namespace. Only a yes is remembered: a new token works at once.
    pub(crate) async fn opens(
        &self,
        pool: &str,
        namespace: &Namespace,
        token: &str,
    ) -> Result<bool, StoreError> {
        let token = self.form.stored(token);
        let name = TokenName::new(pool, namespace, &token);
        let tokens = self.tokens.clone();
        let ask = |token: LimitHolder| async move {
            let is_good = tokens.exists(&token).await?;
            Ok(is_good.then_some(()))
        };
        Ok(self.good.get(name, ask).await?.is_some())
    }

    /// These tokens by the address of the server that stores them.
    pub(crate) fn by_server(
        &self,
        tokens: Vec<Arc<LimitHolder>>,
    ) -> HashMap<Option<Arc<str>>, Vec<Arc<LimitHolder>>> {
        self.tokens.by_server(tokens)
    }

    /// Those of these tokens that are not valid any more, as the answers of Redis come.
    pub(crate) fn revoked(
        &self,
        tokens: Vec<Arc<LimitHolder>>,
    ) -> impl Stream<Item = Result<Vec<Arc<LimitHolder>>, StoreError>> {
        let revoked = self.tokens.missing(tokens);
        revoked.inspect(|tokens| {
            for token in tokens.iter().flatten() {
                self.good.forget(TokenName::of_holder(token));
            }
        })
    }

    /// The name of a token that a client presents, as it is stored.
    pub(crate) fn holder(&self, pool: &str, namespace: &Namespace, token: &str) -> LimitHolder {
        TokenName::new(pool, namespace, &self.form.stored(token)).holder()
    }

    /// Makes a token valid.
    pub(crate) async fn create(
        &self,
        pool: &str,
        namespace: &Namespace,
        token: &str,
        description: &str,
    ) -> Result<TokenCreated, StoreError> {
        let token = self.form.stored(token);
        self.tokens
            .create(pool, namespace, &token, description)
            .await
    }

    /// Makes a token invalid: for new requests here at once, in other processes within a second. It is named by
    /// itself or as it was listed. The caller ends
    /// waits that run.
    pub(crate) async fn delete(
        &self,
        pool: &str,
        namespace: &Namespace,
        token: &str,
    ) -> Result<(), StoreError> {
        let token = self.form.named(token);
        self.tokens.delete(pool, namespace, &token).await?;
        self.good.forget(TokenName::new(pool, namespace, &token));
        Ok(())
    }

    /// The holder of the limit of a token that an administrator names.
    pub(crate) fn named_holder(
        &self,
        pool: &str,
        namespace: &Namespace,
        token: &str,
    ) -> LimitHolder {
        LimitHolder::new(pool, namespace.as_str(), &self.form.named(token))
    }

    /// The tokens of a namespace, as they are stored, and their descriptions.
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
