//! The names of tokens.

use quick_cache::Equivalent;
use tidegate_core::Namespace;
use tidegate_store::LimitHolder;

use super::memory::CachedName;

/// A borrowed [`LimitHolder`]: the stored form of a token, with its namespace and pool. The three texts are separate,
/// so that different triples are never equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenKey<'a> {
    pub(super) pool: &'a str,
    pub(super) namespace: &'a str,
    pub(super) token: &'a str,
}

impl<'a> TokenKey<'a> {
    /// Names the token of a namespace of a pool.
    pub fn new(pool: &'a str, namespace: &'a Namespace, token: &'a str) -> Self {
        Self {
            pool,
            namespace: namespace.as_str(),
            token,
        }
    }

    /// The holder of its limit.
    pub fn holder(self) -> LimitHolder {
        LimitHolder::new(self.pool, self.namespace, self.token)
    }

    /// The token of the holder of a limit.
    pub(crate) fn of_holder(holder: &'a LimitHolder) -> Self {
        let (pool, namespace, token) = holder.parts();
        Self {
            pool,
            namespace,
            token,
        }
    }
}

impl Equivalent<LimitHolder> for TokenKey<'_> {
    fn equivalent(&self, holder: &LimitHolder) -> bool {
        *self == TokenKey::of_holder(holder)
    }
}

impl From<TokenKey<'_>> for LimitHolder {
    fn from(token: TokenKey<'_>) -> Self {
        token.holder()
    }
}

impl CachedName for LimitHolder {
    fn heap_bytes(&self) -> usize {
        let (pool, namespace, token) = self.parts();
        pool.len() + namespace.len() + token.len()
    }
}
