//! The choice of a namespace, for pages about one.

use std::collections::BTreeSet;

use tidegate_core::Namespace;
use tidegate_engine::{EngineError, Pool};

use super::super::error::PageError;
use super::super::visit::Visit;

/// The namespaces that have queues, and the namespace of a page.
pub(super) struct NamespaceChoice {
    pub(super) known: BTreeSet<Namespace>,
    /// The namespace in the address, else the first; `None` if there is none.
    pub(super) chosen: Option<Namespace>,
}

impl NamespaceChoice {
    pub(super) async fn of(visit: &Visit, pool: &Pool) -> Result<Self, PageError> {
        let sizes = pool.sizes().await.ok_or(EngineError::StorageFailed)?;
        let known = sizes.namespaces();
        let chosen = match visit.parameter("namespace") {
            Some(text) => Some(
                Namespace::try_from(text).map_err(|error| PageError::Invalid(error.to_string()))?,
            ),
            None => known.first().cloned(),
        };
        Ok(Self { known, chosen })
    }
}
