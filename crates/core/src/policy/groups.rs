//! Limits of the groups of a queue.

use serde::{Deserialize, Serialize};

use super::bounds::{InvalidPolicy, within};
use crate::limits::MAX_RUNNING_MAX;

/// The limits of each group of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GroupPolicy {
    /// The most jobs of a group that are leased at a time; others stay ready until one of these ends. `null` for no
    /// limit.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub max_running: Option<u64>,
}

impl GroupPolicy {
    pub(super) fn check(self) -> Result<(), InvalidPolicy> {
        match self.max_running {
            Some(jobs) => within("groups.max_running", jobs, 1, MAX_RUNNING_MAX),
            None => Ok(()),
        }
    }
}
