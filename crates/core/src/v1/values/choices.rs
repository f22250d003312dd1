//! Values from short closed lists.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The state of a job.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StateName {
    /// Not due yet.
    Delayed,
    /// Due, and waiting for a worker.
    Ready,
    /// Held by a worker.
    Leased,
    /// In the dead letter.
    Dead,
    /// Finished, and retained with its key.
    Done,
}

/// What a publish does if a job has its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IfExistsOption {
    /// Keeps that job as it is.
    #[default]
    Keep,
    /// Replaces it. A running job runs again afterwards, with the new payload and options.
    Replace,
    /// Fails with `key_taken`.
    Reject,
}

/// What a cancel does if the job is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IfRunningOption {
    /// Fails with `job_running`.
    #[default]
    Refuse,
    /// Asks the worker, which is notified when it extends its lease.
    Ask,
    /// Ends the lease now.
    Revoke,
}

/// In which order a reserve call looks into its queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueOrder {
    /// In the order of the request: a queue is only used when all before it have no ready job.
    Strict,
    /// At random, in proportion to the weights.
    Weighted,
}

/// How a reserve call returns payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PayloadFormat {
    /// In the JSON of the answer.
    #[default]
    Json,
    /// As the body of the answer, and the rest as headers. Only for one job.
    Raw,
}
