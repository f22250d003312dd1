//! Deleting the jobs of a queue.

use serde::{Deserialize, Serialize};

use crate::v1::input::CheckedRequest;

/// The state of the jobs that a purge deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PurgeState {
    /// Jobs that wait for a worker.
    Ready,
    /// The dead letter.
    Dead,
}

/// Which jobs of a queue to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PurgeBody {
    /// Their state. There is no default, so that no purge deletes more than intended.
    pub state: PurgeState,
}

impl CheckedRequest for PurgeBody {}

/// The result of a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PurgeOutcome {
    /// The jobs that were in the queue when the call began are deleted.
    Purged,
}

/// How many jobs a purge deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PurgeAnswer {
    /// The result of the purge.
    pub outcome: PurgeOutcome,
    /// The number of jobs.
    pub deleted: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::limits::ConfigurableLimits;
    use crate::v1::input::read_body;

    #[test]
    fn a_purge_names_the_state() {
        let read =
            |body: &str| read_body::<PurgeBody>(body.as_bytes(), &ConfigurableLimits::default());
        assert_eq!(
            read(r#"{"state":"ready"}"#).unwrap().state,
            PurgeState::Ready
        );
        assert_eq!(read(r#"{"state":"dead"}"#).unwrap().state, PurgeState::Dead);
        for body in [
            "{}",
            r#"{"state":"leased"}"#,
            r#"{"state":null}"#,
            r#"{"state":"dead","all":true}"#,
        ] {
            assert!(read(body).is_err(), "{body}");
        }
        let answer = json!({"outcome": "purged", "deleted": 7});
        let read: PurgeAnswer = serde_json::from_value(answer.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), answer);
    }
}
