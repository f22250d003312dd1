//! Cancelling a job.

use serde::{Deserialize, Serialize};

use crate::v1::input::CheckedRequest;
use crate::v1::values::JobKey;
use crate::{IfRunning, JobId, JobState};

/// The parameters of a cancel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct CancelQuery {
    /// The key of the job, if the path has `-` for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<JobKey>,
    /// The rule if a worker holds the job: `refuse` by default.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", param(required = false))]
    pub running: IfRunning,
}

impl CheckedRequest for CancelQuery {}

/// The result of a cancel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum CancelAnswer {
    /// The job is deleted.
    Cancelled {
        /// Its id.
        id: JobId,
        /// The state that it had.
        was: JobState,
    },
    /// The worker is notified when it extends the lease. Then fail, loss and release delete the job; an ack does not.
    CancelRequested {
        /// Its id.
        id: JobId,
    },
    /// The job is deleted, and its lease has ended: an ack returns `gone`.
    Revoked {
        /// Its id.
        id: JobId,
    },
    /// The job was done before.
    AlreadyDone {
        /// Its id.
        id: JobId,
    },
}

impl CancelAnswer {
    /// The HTTP status.
    pub const fn status(&self) -> u16 {
        match self {
            Self::CancelRequested { .. } => 202,
            Self::Cancelled { .. } | Self::Revoked { .. } | Self::AlreadyDone { .. } => 200,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::limits::ConfigurableLimits;
    use crate::v1::input::read_query;
    use crate::v1::problem::InvalidRequest;

    fn read(pairs: &[(&str, &str)]) -> Result<CancelQuery, InvalidRequest> {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        read_query(&pairs, &ConfigurableLimits::default())
    }

    #[test]
    fn a_running_job_is_not_cancelled_by_default() {
        assert_eq!(read(&[]).unwrap().running, IfRunning::Refuse);
        for (text, running) in [
            ("refuse", IfRunning::Refuse),
            ("ask", IfRunning::Ask),
            ("revoke", IfRunning::Revoke),
        ] {
            assert_eq!(read(&[("running", text)]).unwrap().running, running);
        }
        assert_eq!(
            read(&[("key", "a/b")]).unwrap().key.unwrap().as_str(),
            "a/b"
        );
        for (name, value) in [("running", "kill"), ("running", ""), ("runing", "ask")] {
            assert_eq!(
                read(&[(name, value)]).unwrap_err().field.as_deref(),
                Some(name)
            );
        }
    }

    #[test]
    fn outcomes_are_a_closed_list() {
        let id = "01KAJ0000000000000000000AB";
        for (json, status) in [
            (
                json!({"outcome": "cancelled", "id": id, "was": "delayed"}),
                200,
            ),
            (json!({"outcome": "cancel_requested", "id": id}), 202),
            (json!({"outcome": "revoked", "id": id}), 200),
            (json!({"outcome": "already_done", "id": id}), 200),
        ] {
            let answer: CancelAnswer = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(answer.status(), status);
            assert_eq!(serde_json::to_value(&answer).unwrap(), json);
        }
    }
}
