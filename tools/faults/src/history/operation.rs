//! Requests of clients, of either API, and their outcomes.

use serde::{Deserialize, Serialize};

use super::job::{JobInAnswer, JobParameters};
use super::native::{NativeAnswer, NativeCall};
use super::time::Span;

/// One request and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// The number of its token; 0 = the token of most clients.
    #[serde(default)]
    pub token: u16,
    /// Whether the client was connected to the API without a proxy.
    #[serde(default)]
    pub is_without_proxy: bool,
    /// From just before the request was sent to just after its answer was read, or the client gave up.
    pub span: Span,
    /// The request.
    pub request: ClientRequest,
    /// Its outcome.
    pub outcome: RequestOutcome,
}

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientRequest {
    /// Publish jobs, all or none.
    Publish {
        /// The number of the queue.
        queue: u16,
        /// The jobs.
        jobs: Vec<JobParameters>,
    },
    /// Consume from these queues.
    Consume {
        /// The numbers of the queues.
        queues: Vec<u16>,
        /// The lease of delivered jobs, in µs.
        ttr: u64,
        /// The largest number of jobs to deliver.
        count: u64,
    },
    /// Ack a delivered job.
    Ack {
        /// The number of the job.
        job: u64,
    },
    /// Delete a job by its id.
    Cancel {
        /// The number of the job.
        job: u64,
    },
    /// Atomically publish a job and delete another one, in any state. Outcome: `Published`.
    Republish {
        /// The number of the queue of both jobs.
        queue: u16,
        /// The number of the deleted job.
        replaced: u64,
        /// The new job.
        job: JobParameters,
    },
    /// Peek at a job. Outcome: `Peeked`.
    Peek {
        /// The number of the queue.
        queue: u16,
        /// The number of the job, in any state; `None` = the oldest ready job of the queue.
        job: Option<u64>,
    },
    /// Read the dead letter of a queue. Outcome: `DeadLetter`.
    PeekDead {
        /// The number of the queue.
        queue: u16,
    },
    /// Delete the ready jobs of a queue. Outcome: `Deleted`.
    PurgeReady {
        /// The number of the queue.
        queue: u16,
    },
    /// Delete the oldest dead jobs of a queue. Outcome: `Deleted`.
    PurgeDead {
        /// The number of the queue.
        queue: u16,
        /// The largest number of jobs to delete.
        limit: u64,
    },
    /// Respawn the oldest dead jobs of a queue, with one try each and without a time to live. Outcome: `Respawned`.
    Respawn {
        /// The number of the queue.
        queue: u16,
        /// The largest number of jobs to respawn.
        limit: u64,
    },
    /// Delete a token. Outcome: `Deleted`.
    Revoke {
        /// The number of the token: [`Operation::token`].
        token: u16,
    },
    /// A request of the native API. Outcome: `Native`.
    Native(NativeCall),
}

impl ClientRequest {
    /// Returns the queues that it names. Empty for acks, cancels and revocations.
    #[must_use]
    pub fn queues(&self) -> &[u16] {
        match self {
            Self::Publish { queue, .. }
            | Self::Republish { queue, .. }
            | Self::Peek { queue, .. }
            | Self::PeekDead { queue }
            | Self::PurgeReady { queue }
            | Self::PurgeDead { queue, .. }
            | Self::Respawn { queue, .. } => std::slice::from_ref(queue),
            Self::Consume { queues, .. } => queues,
            Self::Native(call) => call.queues(),
            Self::Ack { .. } | Self::Cancel { .. } | Self::Revoke { .. } => &[],
        }
    }
}

/// The status of an answer by which the jobs are stored, but their durability was not confirmed in time.
pub const NOT_CONFIRMED: u16 = 504;

/// The reason in [`RequestOutcome::Unknown`] if the client gave up.
pub const HUNG_UP: &str = "hung up";

/// The outcome of a request, as its client knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestOutcome {
    /// The jobs are stored, under these ids.
    Published(Vec<String>),
    /// These jobs were delivered; empty if there were none.
    Delivered(Vec<JobInAnswer>),
    /// This job was shown; `None` if there was none.
    Peeked(Option<Box<JobInAnswer>>),
    /// The dead letter of a queue.
    DeadLetter {
        /// The id of the oldest dead job, if there is one.
        head: Option<String>,
        /// The number of dead jobs.
        size: u64,
    },
    /// The job was deleted; for a purge, all jobs that it covers; for a revocation, the token.
    Deleted,
    /// This number of dead jobs was respawned.
    Respawned(u64),
    /// An answer of the native API.
    Native(NativeAnswer),
    /// The request failed with this status. It may have been carried out.
    Failed(u16),
    /// The request was rejected with this status. It was not carried out.
    Refused(u16),
    /// The connection was refused. The request was not carried out.
    NotSent,
    /// No answer came, for this reason. The request may have been carried out.
    Unknown(String),
}

impl RequestOutcome {
    /// Whether it is unknown if the request was carried out.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Unknown(_))
    }
}
