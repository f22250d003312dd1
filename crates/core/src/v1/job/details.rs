//! Showing a job.

use serde::{Deserialize, Serialize};

use crate::v1::input::CheckedRequest;
use crate::v1::values::{
    ContentType, ErrorText, JobAttributes, JobGroup, JobKey, Priority, Timestamp,
};
use crate::{JobId, JobState, QueueName};

/// The parameters of all paths that name a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct JobQuery {
    /// The key of the job, if the path has `-` for it. For keys that contain `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<JobKey>,
}

impl CheckedRequest for JobQuery {}

/// Why a job is in the dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeadReason {
    /// It has failed as often as it may.
    Failures,
    /// Too many workers were lost while they held it.
    Losses,
    /// A worker said that no attempt can succeed.
    Permanent,
    /// Its payload is damaged.
    Unreadable,
}

/// All about a job except its payload. Fields that do not apply to its state are absent.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobDetails {
    /// Its id.
    pub id: JobId,
    /// Its queue.
    pub queue: QueueName,
    /// Its key, if it has one.
    pub key: Option<JobKey>,
    /// Its group, if it has one. Absent once it is done.
    pub group: Option<JobGroup>,
    /// Its state.
    pub state: JobState,
    /// Its priority. Absent if it is 0.
    #[serde(default, skip_serializing_if = "Priority::is_lowest")]
    pub priority: Priority,
    /// When it was published.
    pub created_at: Timestamp,
    /// When it is or was due. Absent while a worker holds it, and once it is done.
    pub run_at: Option<Timestamp>,
    /// When its lease expires.
    pub lease_until: Option<Timestamp>,
    /// When it was acknowledged, if it is done.
    pub done_at: Option<Timestamp>,
    /// The number of the last attempt; 0 if there was none.
    pub attempt: u32,
    /// How many attempts have failed.
    pub failures: u32,
    /// How often a worker was lost while it held the job.
    pub losses: u32,
    /// After how many failures it is dead.
    pub max_attempts: u32,
    /// Its attributes.
    #[serde(default, skip_serializing_if = "JobAttributes::is_empty")]
    pub attributes: JobAttributes,
    /// The content type of its payload. Absent once it is done: its payload is not kept then. Its result has a separate
    /// content type.
    pub content_type: Option<ContentType>,
    /// The number of bytes of its payload; 0 once it is done.
    pub payload_bytes: u64,
    /// The number of bytes of its result, if it is done and has one. `GET …/result` returns it.
    pub result_bytes: Option<u64>,
    /// Why it is dead.
    pub reason: Option<DeadReason>,
    /// The last attempts that did not succeed, oldest first, at most 10. Absent without the scope `read`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryEntry>,
}

/// An attempt that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryEntry {
    /// Its number.
    pub attempt: u32,
    /// When it ended.
    pub ended_at: Timestamp,
    /// The error that the worker reported. Absent if the worker was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorText>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_apply_is_absent() {
        let mut json = json!({
            "id": "01KAJ0000000000000000000AB", "queue": "emails", "state": "ready",
            "created_at": "2026-11-21T12:30:00.000Z", "run_at": "2026-11-21T12:30:00.000Z",
            "attempt": 0, "failures": 0, "losses": 0, "max_attempts": 10, "content_type": "text/plain",
            "payload_bytes": 5,
        });
        let waiting: JobDetails = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&waiting).unwrap(), json);
        json["state"] = json!("dead");
        json["key"] = json!("order-17");
        json["group"] = json!("tenant-17");
        json["priority"] = json!(3);
        json["reason"] = json!("permanent");
        json["attributes"] = json!({"tenant": "a"});
        json["history"] = json!([
            {"attempt": 1, "ended_at": "2026-11-21T12:31:00.000Z"},
            {"attempt": 2, "ended_at": "2026-11-21T12:32:00.000Z", "error": "smtp: 550"},
        ]);
        let dead: JobDetails = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(dead.reason, Some(DeadReason::Permanent));
        assert_eq!(serde_json::to_value(&dead).unwrap(), json);
    }
}
