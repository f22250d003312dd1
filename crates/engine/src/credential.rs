//! What a client proves that it may send a request with.

use std::sync::Arc;

use tidegate_core::ApiKeyId;
use tidegate_store::LimitHolder;

/// A token or an API key. Cheap to clone; it has the stored form of a token, and no secret of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Credential {
    /// A token of a namespace in a pool.
    Token(Arc<LimitHolder>),
    /// An API key.
    Key(ApiKeyId),
}

impl From<LimitHolder> for Credential {
    fn from(token: LimitHolder) -> Self {
        Self::Token(Arc::new(token))
    }
}

impl From<Arc<LimitHolder>> for Credential {
    fn from(token: Arc<LimitHolder>) -> Self {
        Self::Token(token)
    }
}

impl From<ApiKeyId> for Credential {
    fn from(id: ApiKeyId) -> Self {
        Self::Key(id)
    }
}
