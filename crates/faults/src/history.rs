//! The history of a run: what clients observed and which faults were injected, by one clock.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

mod native;
mod reserve_call;

use crate::fault::Class;
pub use native::{
    CancelEffect, HeldJob, JobAddress, JobVersion, NativeAnswer, NativeCall, PublishMode,
    ReservedVersion, RetryTimes, SettleResult, SettleVerb, ShownVersion, VersionResult,
};
pub(crate) use reserve_call::{JOB_LEASES, ReserveCall};

/// A time in µs since 1970, by the clock of this machine, which is also Redis's clock.
pub type UnixMicros = u64;

/// Returns the current time.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "times of several processes are compared"
)]
pub fn now() -> UnixMicros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| {
        u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
    })
}

/// A time span; both ends are inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Its begin.
    pub from: UnixMicros,
    /// Its end.
    pub to: UnixMicros,
}

impl Span {
    /// Whether the two spans overlap or touch.
    #[must_use]
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

/// Merges overlapping spans. The input must be sorted by begin.
pub(crate) fn merge_spans(spans: impl Iterator<Item = Span>) -> Vec<Span> {
    let mut all: Vec<Span> = Vec::new();
    for span in spans {
        match all.last_mut() {
            Some(last) if last.overlaps(&span) => last.to = last.to.max(span.to),
            _ => all.push(span),
        }
    }
    all
}

/// The part of a run that is judged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Every request of every client, ordered by end.
    pub operations: Vec<Operation>,
    /// The injected faults, in order.
    pub episodes: Vec<Episode>,
    /// Whether publishes were acknowledged only when all replicas, or the disk, had the jobs.
    pub is_replicated: bool,
    /// Largest allowed lateness without an excuse, in µs.
    pub bound: u64,
    /// Spans in which the machine was so busy that jobs may be late.
    pub busy: Vec<Span>,
    /// The numbers of the queues that may have several lanes.
    pub laned: Vec<u16>,
    /// The numbers of the queues that native clients use.
    pub native: Vec<u16>,
    /// The rate limits of tokens; other tokens are unlimited.
    pub limits: Vec<TokenLimit>,
    /// When the clients started.
    pub began: UnixMicros,
    /// When everything had ended.
    pub ended: UnixMicros,
}

/// Largest bound with which a run proves anything about lateness, in µs. A job that is delivered only by the API's
/// periodic poll, after a lost notification, is much later than this.
const TELLING_BOUND_MAX: u64 = 1_000_000;

impl History {
    /// Whether the run proves anything about lateness: the bound is at most 1 s, and the machine was busy for less than
    /// half of the run.
    #[must_use]
    pub fn proves_lateness(&self) -> bool {
        let busy: u64 = self.busy.iter().map(|span| span.to - span.from).sum();
        self.bound <= TELLING_BOUND_MAX && busy * 2 < self.ended.saturating_sub(self.began)
    }
}

/// The rate limit of a token. A successful publish or republish counts against `publishes`, a consume that is answered
/// with jobs against `consumes`. A failed request may count as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenLimit {
    /// The number of the token: [`Operation::token`].
    pub token: u16,
    /// Publishes per window; 0 = unlimited.
    pub publishes: u64,
    /// Consumes per window; 0 = unlimited.
    pub consumes: u64,
    /// The length of a window, in µs. A window begins with the first request in it.
    pub window: u64,
}

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

/// The parameters of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobParameters {
    /// Its number, unique in the run; its body begins with it.
    pub number: u64,
    /// Its delay, in µs.
    pub delay: u64,
    /// Its time to live, in µs; 0 = no expiry.
    pub ttl: u64,
    /// How often it may be delivered.
    pub tries: u64,
    /// The length of its body, in bytes.
    pub bytes: usize,
    /// Whether its body is not text.
    #[serde(default)]
    pub is_binary: bool,
    /// The number of its attributes. Their names and values are derived from its number.
    #[serde(default)]
    pub attributes: u8,
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

/// A job in an answer to a consume or a peek.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobInAnswer {
    /// Its number, if body and attributes are exactly those that were published under that number.
    pub number: Option<u64>,
    /// Its id.
    pub id: String,
    /// The number of the queue in the answer.
    pub queue: u16,
    /// Tries left after this delivery. 0 for a peek by id.
    pub tries_left: u64,
    /// When it was created, by Redis's clock, truncated to ms.
    pub created: UnixMicros,
    /// From then to the begin of its lease, or to the peek, by the same clock, in µs with a resolution of 1 ms.
    pub elapsed: u64,
}

impl JobInAnswer {
    /// Returns when its lease began, or when it was peeked at, truncated to ms.
    #[must_use]
    pub const fn reserved(&self) -> UnixMicros {
        self.created + self.elapsed
    }
}

/// An injected fault, as it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Episode {
    /// Its class.
    pub class: Class,
    /// Description with its target.
    pub what: String,
    /// From its begin to its end.
    pub span: Span,
    /// It excuses late jobs from its begin until this time. That may be before its end, if others take over from a
    /// daemon that is unavailable.
    pub excuses_until: UnixMicros,
    /// Writes that Redis acknowledged in this time may be lost, because of its configuration.
    pub may_lose: Option<Span>,
    /// Queues on unaffected servers: from `unaffected_from` on it excuses nothing there.
    #[serde(default)]
    pub unaffected_queues: Vec<u16>,
    /// The time from which on it excuses nothing for `unaffected_queues`.
    #[serde(default)]
    pub unaffected_from: UnixMicros,
    /// The times in which an API that stopped closed idle connections: a request that was sent on one then may stay
    /// without an answer.
    #[serde(default)]
    pub idle_closed: Vec<Span>,
}

impl Episode {
    /// Returns the span in which it excuses late jobs.
    #[must_use]
    pub const fn excused(&self) -> Span {
        Span {
            from: self.span.from,
            to: self.excuses_until,
        }
    }

    /// Returns the span in which it excuses late jobs of this queue.
    #[must_use]
    pub fn excused_for(&self, queue: u16) -> Span {
        let Span { from, to } = self.excused();
        let to = match self.unaffected_queues.contains(&queue) {
            true => to.min(self.unaffected_from.max(from)),
            false => to,
        };
        Span { from, to }
    }

    /// Whether it excuses nothing for these queues at `from` and later.
    #[must_use]
    pub fn does_not_affect(&self, queues: &[u16], from: UnixMicros) -> bool {
        let is_unaffected = |queue| self.unaffected_queues.contains(queue);
        !queues.is_empty() && queues.iter().all(is_unaffected) && from >= self.unaffected_from
    }

    /// Whether it was active, or still has an effect, in a part of this span.
    #[must_use]
    pub const fn affects(&self, span: &Span) -> bool {
        self.span.overlaps(span) || self.excused().overlaps(span)
    }
}
