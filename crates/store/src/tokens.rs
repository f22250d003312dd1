//! Access tokens: which strings open a namespace of a pool.

use tidegate_core::{Namespace, keys};

use crate::{Store, StoreError};

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

    /// Whether a token opens the namespace.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn exists(
        &self,
        pool: &str,
        namespace: &Namespace,
        token: &str,
    ) -> Result<bool, StoreError> {
        let mut ask = Self::command("HEXISTS", pool, namespace);
        self.store.command(ask.arg(token)).await
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
