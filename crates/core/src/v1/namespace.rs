//! Namespaces: how much of its limits one uses, and the quotas that operators set on the admin port.

use serde::{Deserialize, Serialize};

use crate::NamespaceLimits;

/// A namespace, with its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NamespaceDetails {
    /// Its name.
    pub namespace: String,
    /// All limits of namespaces.
    pub limits: Vec<NamespaceLimitUse>,
}

/// A limit of a namespace, and how much of it is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NamespaceLimitUse {
    /// `queues`, `policies`, `limits`, `schedules`, `relays`, `api_keys`, `jobs`, `publishes_per_second` or
    /// `waiting_consumers`. A refusal names it.
    pub name: String,
    /// How much the namespace has; `null` for `publishes_per_second`. Queues and jobs were counted up to a few seconds
    /// ago. `waiting_consumers` counts the consumers that wait at the server that answers, not at others.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub used: Option<u64>,
    /// How much it may have; `null` = any number.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub max: Option<u64>,
}

/// The quota of a namespace, on the admin port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceQuota {
    /// The namespace.
    pub namespace: String,
    /// Changes with every `PUT`; `0` = the namespace has no quota. The header `ETag` has it in quotes.
    pub revision: String,
    /// The limits that the quota sets. Others have their defaults.
    pub quota: NamespaceLimits,
    /// The limits in effect. A kind that is absent is not limited.
    pub limits: NamespaceLimits,
}

/// The quotas of all namespaces, on the admin port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceQuotas {
    /// The limits of namespaces without a quota.
    pub defaults: NamespaceLimits,
    /// The quotas by namespace.
    pub items: Vec<NamespaceQuota>,
    /// The namespaces whose stored quota cannot be read: the defaults apply to them. Set it again, or delete it.
    pub damaged: Vec<String>,
}
