//! Proof of a client that it may send a request.

use std::sync::Arc;

use tidegate_core::ApiKeyId;
use tidegate_store::LimitHolder;

/// A token, an API key, or the listener of the client. Cheap to clone; it has the stored form of a token, and no secret
/// of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Credential {
    /// A token of a namespace in a pool.
    Token(Arc<LimitHolder>),
    Key(ApiKeyId),
    /// The clients of a listener, by its name, that checks them itself. They are never revoked, and have no rate limit.
    Listener(&'static str),
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
