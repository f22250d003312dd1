//! The limits of namespaces, as this process knows them.

use std::collections::HashMap;

use tidegate_core::{Namespace, NamespaceLimits};

use crate::error::{NamespaceFull, StoreError};

/// The limits of all namespaces.
#[derive(Debug, Clone, Default)]
pub struct LimitsByNamespace {
    /// The limits of a namespace without a quota.
    pub defaults: NamespaceLimits,
    /// The limits of the others.
    pub of_quotas: HashMap<Namespace, NamespaceLimits>,
}

impl LimitsByNamespace {
    /// The limits of a namespace.
    pub fn of(&self, namespace: &Namespace) -> NamespaceLimits {
        // In most deployments there is no quota: no hash is computed.
        if self.of_quotas.is_empty() {
            return self.defaults;
        }
        let own = self.of_quotas.get(namespace).copied();
        own.unwrap_or(self.defaults)
    }
}

/// The argument of scripts for a limit. Without one, it is more than any namespace has.
pub(crate) fn max_argument(limit: Option<u64>) -> u64 {
    limit.unwrap_or(u32::MAX.into())
}

/// The error of a script that has refused an entry of this kind.
pub(crate) fn full(kind: &'static str, limit: Option<u64>) -> StoreError {
    let max = max_argument(limit);
    StoreError::NamespaceFull(NamespaceFull { kind, max })
}
