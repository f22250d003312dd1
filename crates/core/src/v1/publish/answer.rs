//! Answers to publishes.

use serde::{Deserialize, Serialize};

use crate::v1::problem::Problem;
use crate::v1::values::{JobKey, Timestamp};
use crate::{Durability, JobId, JobState, QueueName};

/// The result of a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PublishResult {
    /// There is a new job.
    Created,
    /// A job has the key; it is as it was.
    Exists,
    /// A waiting job has the key; it has the new payload and options.
    Replaced,
    /// A running job has the key; it runs again with the new payload and options.
    Rerun,
    /// A dead job has the key; it has the new payload and options and runs again.
    Revived,
}

impl PublishResult {
    /// The HTTP status of a single publish with this outcome.
    pub const fn status(self) -> u16 {
        match self {
            Self::Created => 201,
            Self::Exists | Self::Replaced | Self::Rerun | Self::Revived => 200,
        }
    }
}

/// The job that a publish created or found.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PublishedJob {
    /// The id of the job.
    pub id: JobId,
    /// Its queue.
    pub queue: QueueName,
    /// Its key, if it has one.
    pub key: Option<JobKey>,
    /// The result of the publish.
    pub outcome: PublishResult,
    /// The state of the job.
    pub state: JobState,
    /// When it is due next. Absent if it is done, or a worker holds it and it will not run again.
    pub run_at: Option<Timestamp>,
    /// The copies of it that exist.
    pub durability: Durability,
    /// Whether an earlier publish with the same `Idempotency-Key` has stored the job. `outcome` is then `created`,
    /// whatever it was, and `state` and `run_at` are as they are now: `done` also if the job is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

/// The result for one job of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum BatchItemResult {
    /// The job was published.
    Published(PublishedJob),
    /// The job was not published, or is less durable than requested.
    Failed {
        /// Why.
        problem: Box<Problem>,
    },
}

/// One result per job of a batch, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchAnswer {
    /// The results.
    pub results: Vec<BatchItemResult>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::v1::problem::ProblemCode;

    #[test]
    fn a_batch_has_answers_and_problems() {
        let published = json!({
            "id": "01KAJ0000000000000000000AB", "queue": "emails", "outcome": "created", "state": "delayed",
            "run_at": "2026-11-21T12:30:00.000Z", "durability": "memory",
        });
        let problem = Problem::new(ProblemCode::KeyTaken, "taken", "req-1");
        let failed = json!({"problem": serde_json::to_value(&problem).unwrap()});
        let json = json!({"results": [published, failed]});
        let answer: BatchAnswer = serde_json::from_value(json.clone()).unwrap();
        assert!(
            matches!(&answer.results[0], BatchItemResult::Published(it) if !it.replayed && it.key.is_none())
        );
        assert!(
            matches!(&answer.results[1], BatchItemResult::Failed { problem: it } if **it == problem)
        );
        assert_eq!(serde_json::to_value(&answer).unwrap(), json);
    }

    #[test]
    fn only_a_new_job_is_created() {
        assert_eq!(PublishResult::Created.status(), 201);
        for outcome in ["exists", "replaced", "rerun", "revived"] {
            let read: PublishResult = serde_json::from_value(json!(outcome)).unwrap();
            assert_eq!(read.status(), 200, "{outcome}");
        }
    }
}
