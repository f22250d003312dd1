//! Two jobs of one schedule.

use serde::{Deserialize, Serialize};

use crate::IfExists;

/// The rule for a tick if the job of an earlier tick is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// That job stays as it is, and no other job is published.
    #[default]
    Keep,
    /// It is replaced. A running job runs again afterwards.
    Replace,
    /// There are two jobs.
    Allow,
}

impl Overlap {
    /// The rule for the publish if the job of an earlier tick is not done; `None`: jobs have no key.
    #[must_use]
    pub const fn if_exists(self) -> Option<IfExists> {
        match self {
            Self::Keep => Some(IfExists::Keep),
            Self::Replace => Some(IfExists::Replace),
            Self::Allow => None,
        }
    }
}
