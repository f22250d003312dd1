//! The verdict on a run.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::history::{Span, UnixMicros};

/// A violation of a guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Defect {
    /// A job whose publish was acknowledged was never delivered, and no request of a client explains it.
    Lost,
    /// A job was delivered more often than its tries allow, or to two consumers at a time.
    Doubled,
    /// A job was delivered before it was due.
    Early,
    /// A job was delivered after its window.
    Late,
    /// A job was delivered after an ack, cancel, republish or purge of it was acknowledged, or after it had expired.
    AfterItsEnd,
    /// A job of a queue with one lane was delivered although another one was ahead of it, or had a higher priority.
    OutOfOrder,
    /// A delivery of a job that was not published, or whose publish was rejected, or with another body, other
    /// attributes or from another queue, or at an impossible time.
    Foreign,
    /// A job lost tries, or died of that, although no consumer can have used them.
    DiedEarly,
    /// A key had two unfinished jobs, or was free while its finished job was retained.
    KeyShared,
    /// A version came although a newer one had replaced it.
    OldVersion,
    /// A repeated request with the same idempotency key was carried out again.
    Repeated,
    /// A publisher that waits got the result of another job or of another run, or an untrue answer about its end.
    WrongResult,
    /// A worker could not settle a job whose lease lasted.
    LeaseBroken,
    /// A request failed although no fault affected it, or a rate limit rejected a request that was within it.
    Refused,
    /// More requests succeeded than a rate limit allows.
    OverLimit,
    /// More jobs of a group were leased at a time than the policy of their queue allows.
    OverMaxRunning,
    /// More jobs were delivered in a time than the rate of their queue allows.
    OverRate,
    /// A group was served twice while another one of the priority waited for its turn.
    TurnMissed,
    /// Jobs of a priority waited while more jobs of others were delivered than the rounds allow.
    Starved,
    /// A request succeeded with a token that had been revoked.
    Revoked,
    /// Redis has data that belong to no job, an unreachable job, or a wrong count.
    Orphan,
    /// A daemon ended unexpectedly.
    Broken,
    /// The machine's clock was moved, or the harness was stalled, so times are meaningless: the run does not count.
    Void,
}

impl Defect {
    /// Whether it is observed in the deployment instead of in the history.
    #[must_use]
    pub const fn is_from_deployment(self) -> bool {
        matches!(self, Self::Orphan | Self::Broken | Self::Void)
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Lost => "lost",
            Self::Doubled => "doubled",
            Self::Early => "early",
            Self::Late => "late",
            Self::AfterItsEnd => "after its end",
            Self::OutOfOrder => "out of order",
            Self::Foreign => "foreign",
            Self::DiedEarly => "died early",
            Self::KeyShared => "key shared",
            Self::OldVersion => "old version",
            Self::Repeated => "repeated",
            Self::WrongResult => "wrong result",
            Self::LeaseBroken => "lease broken",
            Self::Refused => "refused",
            Self::OverLimit => "over limit",
            Self::OverMaxRunning => "over max running",
            Self::OverRate => "over rate",
            Self::TurnMissed => "turn missed",
            Self::Starved => "starved",
            Self::Revoked => "revoked",
            Self::Orphan => "orphan",
            Self::Broken => "broken",
            Self::Void => "void",
        })
    }
}

/// One defect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its kind.
    pub defect: Defect,
    /// When it was observed.
    pub at: UnixMicros,
    /// Description.
    pub text: String,
}

/// The lateness of a delivery that only Tidegate can have delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lateness {
    /// From when the job was due, or its lease expired, until its consumer had received it.
    pub waited: Span,
    /// The part of that span in which consumers requested jobs, in µs.
    pub late: u64,
}

/// Figures of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct JobCounts {
    /// Versions that were stored, as answers show.
    pub published: usize,
    /// Versions of which it is unknown whether they were stored.
    pub open: usize,
    /// Jobs that were delivered at least once.
    pub delivered: usize,
    pub deliveries: usize,
    /// Acknowledged versions that were lost while the configuration of Redis allowed it.
    pub lost_with_redis: usize,
}

/// The verdict on a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Violations; empty in a good run.
    pub findings: Vec<Finding>,
    /// Figures.
    pub counts: JobCounts,
    /// Lateness of deliveries, sorted by due time.
    pub lateness: Vec<Lateness>,
}

impl Verdict {
    pub fn add_finding(&mut self, defect: Defect, at: UnixMicros, text: String) {
        self.findings.push(Finding { defect, at, text });
    }

    /// Returns the number of findings of this kind.
    #[must_use]
    pub fn count(&self, defect: Defect) -> usize {
        let same = self.findings.iter().filter(|it| it.defect == defect);
        same.count()
    }

    /// Returns the latest delivery that was due in this span.
    #[must_use]
    pub fn worst_between(&self, from: UnixMicros, to: UnixMicros) -> Option<Lateness> {
        let due = self
            .lateness
            .iter()
            .filter(|it| it.waited.from >= from && it.waited.from <= to);
        due.max_by_key(|it| it.late).copied()
    }
}
