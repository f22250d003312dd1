//! Tokens. A token gives access to one namespace of one pool.

pub(crate) mod last_known;
pub(crate) mod memory;
mod token_form;
pub(crate) mod token_key;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use tidegate_core::Namespace;
use tidegate_store::{LimitHolder, StoreError, TokenCreated, Tokens};

pub use token_form::TokenForm;

use crate::access::random_text::random_text;
use crate::access::tokens::last_known::{LastKnown, LookUp};
use crate::access::tokens::token_key::TokenKey;
use crate::error::EngineError;

const GENERATED_LENGTH: usize = 26;

/// The tokens, with a cache of valid ones. A deleted token remains valid in other processes for up to a second; in a
/// process that cannot reach the Redis of the tokens, until it can again, and for an hour at most.
#[derive(Debug)]
pub struct TokenCache {
    tokens: Tokens,
    form: TokenForm,
    valid: LastKnown<Tokens>,
}

impl TokenCache {
    /// Creates a cache without an answer.
    pub fn new(tokens: Tokens, form: TokenForm) -> Self {
        Self {
            valid: LastKnown::new(tokens.clone()),
            tokens,
            form,
        }
    }

    /// The stored form of a token that a client presents.
    pub fn stored_form<'a>(&self, token: &'a str) -> Cow<'a, str> {
        self.form.stored(token)
    }

    /// Whether a token gives access to a namespace. Only positive answers are cached, so that a new token is valid at
    /// once.
    ///
    /// # Errors
    /// Redis is unavailable and there is no answer of the last hour, or the stored data is corrupt.
    pub async fn is_valid(
        &self,
        pool: &str,
        namespace: &Namespace,
        token: &str,
    ) -> Result<bool, EngineError> {
        let token = self.form.stored(token);
        let name = TokenKey::new(pool, namespace, &token);
        let good = self.valid.get(name).await;
        let good = good.map_err(|error| EngineError::of_failed_check(&error))?;
        Ok(good.is_some())
    }

    /// Groups tokens by the address of the server that stores them; `None` = unknown.
    pub fn by_server(
        &self,
        tokens: Vec<Arc<LimitHolder>>,
    ) -> HashMap<Option<Arc<str>>, Vec<Arc<LimitHolder>>> {
        self.tokens.by_server(tokens)
    }

    /// Looks up tokens, and yields the invalid tokens as the answers of Redis arrive. They are removed from
    /// the cache.
    pub fn revoked(
        &self,
        tokens: Vec<Arc<LimitHolder>>,
    ) -> impl Stream<Item = Result<Vec<Arc<LimitHolder>>, StoreError>> {
        let revoked = self.tokens.missing(tokens);
        revoked.inspect(|tokens| {
            for token in tokens.iter().flatten() {
                self.valid.forget(TokenKey::of_holder(token));
            }
        })
    }

    /// The holder of the limit of a token that a client presents.
    pub fn holder(&self, pool: &str, namespace: &Namespace, token: &str) -> LimitHolder {
        TokenKey::new(pool, namespace, &self.form.stored(token)).holder()
    }

    /// Creates a token, unless it exists.
    pub async fn create(
        &self,
        pool: &str,
        namespace: &Namespace,
        token: &str,
        description: &str,
    ) -> Result<TokenCreated, EngineError> {
        let token = self.form.stored(token);
        let creating = self.tokens.create(pool, namespace, &token, description);
        Ok(creating.await?)
    }

    /// Revokes a token: for new requests here at once, in other processes within a second. `token` is the token itself
    /// or its listed form. The caller must end current waits with [`crate::Engine::end_waits`].
    pub async fn delete(
        &self,
        pool: &str,
        namespace: &Namespace,
        token: &str,
    ) -> Result<(), EngineError> {
        let token = self.form.stored_form_of_named(token);
        self.tokens.delete(pool, namespace, &token).await?;
        self.valid.forget(TokenKey::new(pool, namespace, &token));
        Ok(())
    }

    /// The holder of the limit of a token that an administrator names, by the token itself or its listed form.
    pub fn named_holder(&self, pool: &str, namespace: &Namespace, token: &str) -> LimitHolder {
        LimitHolder::new(
            pool,
            namespace.as_str(),
            &self.form.stored_form_of_named(token),
        )
    }

    /// The tokens of a namespace in their stored form, with their descriptions.
    pub async fn list(
        &self,
        pool: &str,
        namespace: &Namespace,
    ) -> Result<Vec<(String, String)>, EngineError> {
        Ok(self.tokens.list(pool, namespace).await?)
    }
}

/// Valid tokens are cached.
impl LookUp for Tokens {
    const SUBJECT: &'static str = "tokens";

    type Name = LimitHolder;

    type Answer = ();

    async fn look_up(&self, token: &LimitHolder) -> Result<Option<()>, StoreError> {
        Ok(self.exists(token).await?.then_some(()))
    }
}

/// Generates a token: 26 characters with 134 bits from the random source of the operating system.
pub fn generate() -> String {
    random_text(GENERATED_LENGTH)
}

/// The pool and the token of `[pool:]token`; without a pool it is empty. The first colon ends the pool.
pub fn split_token(token: &str) -> (&str, &str) {
    token.split_once(':').unwrap_or(("", token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_tokens_have_26_characters_and_differ() {
        let token = generate();
        assert_eq!(token.len(), 26);
        assert_ne!(token, generate());
    }

    #[test]
    fn a_token_is_split_at_its_first_colon() {
        assert_eq!(split_token("tok"), ("", "tok"));
        assert_eq!(split_token("p:t:u"), ("p", "t:u"));
        assert_eq!(split_token(":tok"), ("", "tok"));
    }
}
