//! The counts and the policy of a queue.

use serde::{Deserialize, Serialize};

use crate::v1::values::Timestamp;
use crate::{JobsByState, QueueName};

/// A queue. A queue that was never used has no jobs, and is not an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueView {
    /// Its name.
    pub queue: QueueName,
    /// How many jobs it has.
    pub jobs: JobsByState,
    /// Whether its policy stops deliveries now.
    pub paused: bool,
    /// When deliveries continue. Absent if the queue is not paused, or paused without an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Timestamp>,
    /// Whether its policy rejects publishes.
    pub closed: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_queue_that_was_never_used_has_zeros() {
        let view = QueueView {
            queue: "emails".parse().unwrap(),
            jobs: JobsByState::default(),
            paused: false,
            paused_until: None,
            closed: false,
        };
        let expected = json!({
            "queue": "emails", "paused": false, "closed": false,
            "jobs": {"delayed": 0, "ready": 0, "leased": 0, "dead": 0, "done": 0},
        });
        assert_eq!(serde_json::to_value(&view).unwrap(), expected);
        assert_eq!(serde_json::from_value::<QueueView>(expected).unwrap(), view);
    }
}
