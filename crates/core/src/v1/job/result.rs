//! The result of a job.

use serde::{Deserialize, Serialize};

use crate::limits::ConfigurableLimits;
use crate::v1::checks::check_wait;
use crate::v1::input::CheckedRequest;
use crate::v1::problem::InvalidRequest;
use crate::v1::values::{DurationMs, JobKey};
use crate::{JobId, JobState};

/// Which job, and how long to wait for its end.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ResultQuery {
    /// The key of the job, if the path has `-` for it. For keys that contain `/`.
    pub key: Option<JobKey>,
    /// How long the answer waits for the end of the job. By default it does not wait.
    pub wait: Option<DurationMs>,
}

impl CheckedRequest for ResultQuery {
    fn check(&self, limits: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        check_wait(self.wait, limits)
    }
}

/// A job that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnfinishedJob {
    /// Its id.
    pub id: JobId,
    /// Its state.
    pub state: JobState,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_bounded() {
        let query = |wait_ms| ResultQuery {
            key: None,
            wait: Some(DurationMs::saturating(wait_ms)),
        };
        let limits = ConfigurableLimits::default();
        assert!(query(limits.wait_ms).check(&limits).is_ok());
        let invalid = query(limits.wait_ms + 1).check(&limits).unwrap_err();
        assert_eq!(invalid.field.as_deref(), Some("wait"));
    }
}
