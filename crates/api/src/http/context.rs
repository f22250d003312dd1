//! The pool and the namespace of a request, for its metrics and its access log line.

use std::sync::{Arc, OnceLock};

use tidegate_core::Namespace;

use tidegate_engine::Pool;

/// Set while names and token are checked, read after the request is answered. Only the first value of each is kept.
/// Shared through an `Arc`, as a long poll keeps it for minutes.
#[derive(Debug, Default)]
pub(crate) struct RequestContext {
    /// The pool; unset if the request names none that is configured, or was rejected before.
    pub(crate) pool: OnceLock<Arc<Pool>>,
    /// The namespace; unset unless a valid token for it was presented.
    pub(crate) namespace: OnceLock<Namespace>,
}
