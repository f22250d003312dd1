//! Lists of policies.

use serde::{Deserialize, Serialize};

use crate::{Namespace, Policy, QueueName};

/// A queue that has a stored policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueuePolicy {
    /// The namespace of the queue.
    pub namespace: Namespace,
    /// The name of the queue.
    pub queue: QueueName,
    /// The policy in effect.
    pub policy: Policy,
    /// The stored text, if it is damaged; then the defaults are in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}
