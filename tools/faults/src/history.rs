//! The history of a run: the observations of clients and the injected faults, by one clock.

mod episode;
mod held_queue;
mod operation;
mod outcome;
mod request;
mod time;
mod version_spec;

use serde::{Deserialize, Serialize};

pub use episode::Episode;
pub use held_queue::{DeliveryRate, HeldQueue};
pub(crate) use operation::JOB_LEASES;
pub use operation::Operation;
pub use outcome::{
    CancelEffect, Delivery, HUNG_UP, JobEndAnswer, NOT_CONFIRMED, RequestOutcome, RunResult,
    ShownJob, VersionResult,
};
pub use request::{ClientRequest, HeldJob, JobAddress, PublishMode, SettleAction, Wire};
pub use time::{Span, UnixMicros, now};
pub(crate) use time::{in_micros, merge_spans, micros, truncate_to_ms};
pub use version_spec::{RetryTimes, VersionSpec};

/// The part of a run that is judged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Every request of every client, ordered by end.
    #[serde(skip)]
    pub operations: Vec<Operation>,
    /// The injected faults, in order.
    #[serde(skip)]
    pub episodes: Vec<Episode>,
    /// Whether publishes were acknowledged only when all replicas, or the disk, had the jobs.
    pub is_replicated: bool,
    /// Largest allowed lateness without an excuse, in µs.
    pub bound: u64,
    /// Spans in which the machine was so busy that jobs may be late.
    pub busy: Vec<Span>,
    /// The numbers of the queues that may have several lanes.
    pub laned: Vec<u16>,
    /// The queues whose jobs wait although consumers ask for them.
    #[serde(default)]
    pub held: Vec<HeldQueue>,
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
