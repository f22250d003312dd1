//! What becomes known of a request on its way in, for its metrics and its line in the log.

use std::sync::{Arc, OnceLock};

use tidegate_core::Namespace;

use crate::pool::Pool;

/// Filled while names and token are checked, read when the request was answered. Cheap to clone. Small:
/// a long poll keeps it for minutes.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestContext(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    pool: OnceLock<Arc<Pool>>,
    namespace: OnceLock<Namespace>,
}

impl RequestContext {
    /// The request is for this pool, which is there.
    pub(crate) fn is_for(&self, pool: &Arc<Pool>) {
        let _ = self.0.pool.set(Arc::clone(pool));
    }

    /// The token of the request opened this namespace.
    pub(crate) fn opened(&self, namespace: &Namespace) {
        let _ = self.0.namespace.set(namespace.clone());
    }

    /// The pool, if there is one of this name.
    pub(crate) fn pool(&self) -> Option<&Arc<Pool>> {
        self.0.pool.get()
    }

    /// The namespace, if the token opened it.
    pub(crate) fn namespace(&self) -> Option<&Namespace> {
        self.0.namespace.get()
    }
}
