//! What the judge says.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::history::{Moment, Span};

/// What must never be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Defect {
    /// A job that was acknowledged never came, and nothing that a client did explains it.
    Lost,
    /// A job came more often than its tries allow, or to two consumers at a time.
    Doubled,
    /// A job came before it was due.
    Early,
    /// A job came after its window.
    Late,
    /// A job came after it was acked, cancelled, replaced or purged, and that was acknowledged; or after it had expired.
    AfterItsEnd,
    /// A job of a queue with one lane came although another one was ahead of it.
    OutOfOrder,
    /// A delivery of something that nobody published, or of which it was said that it was not stored, or with
    /// another body, other attributes or from another queue, or at a time that cannot be.
    Foreign,
    /// A job lost tries, or died of that, although no consumer can have had them.
    DiedEarly,
    /// A consume, an ack or a cancel failed because memory was full, which only what stores something may; or anything
    /// because slots moved; or a rate limit refused a request that was within it.
    Refused,
    /// More requests were carried out than a rate limit allows.
    OverLimit,
    /// A request was carried out for a token that had been revoked.
    Revoked,
    /// Something is in Redis that belongs to no job, or a job that nothing leads to, or a wrong count.
    Orphan,
    /// A daemon ended by itself.
    Broken,
    /// The machine's clock was moved or the harness stood still, so that times mean nothing: the run does not count.
    Void,
}

impl Defect {
    /// Whether no history tells it.
    #[must_use]
    pub const fn is_seen_in_the_world(self) -> bool {
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
            Self::Refused => "refused",
            Self::OverLimit => "over limit",
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
    /// When it showed.
    pub at: Moment,
    /// What was seen, in words.
    pub text: String,
}

/// How late a delivery was that nothing but Tidegate can have held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lateness {
    /// From when the job was due, or its lease was over, until its consumer had read it.
    pub waited: Span,
    /// The part of that time in which consumers asked, in µs.
    pub late: u64,
}

/// Figures of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Jobs whose publish was acknowledged.
    pub published: usize,
    /// Jobs of which nobody knows whether they were stored.
    pub open: usize,
    /// Jobs that came at least once.
    pub delivered: usize,
    /// Deliveries.
    pub deliveries: usize,
    /// Jobs that a client ended, or may have ended.
    pub ended: usize,
    /// Jobs that died.
    pub dead: usize,
    /// Jobs that were acknowledged and lost in a time in which Redis was set up to lose what it acknowledges.
    pub lost_with_redis: usize,
}

/// What the judge says of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// What must not be; nothing in a good run.
    pub findings: Vec<Finding>,
    /// Figures.
    pub counts: Counts,
    /// How late deliveries were, by the time at which they were due.
    pub lateness: Vec<Lateness>,
}

impl Verdict {
    /// Adds a defect.
    pub fn find(&mut self, defect: Defect, at: Moment, text: String) {
        self.findings.push(Finding { defect, at, text });
    }

    /// How often there is this defect.
    #[must_use]
    pub fn count(&self, defect: Defect) -> usize {
        let same = self.findings.iter().filter(|it| it.defect == defect);
        same.count()
    }

    /// The latest delivery that was due in this time.
    #[must_use]
    pub fn worst_between(&self, from: Moment, to: Moment) -> Option<Lateness> {
        let due = self
            .lateness
            .iter()
            .filter(|it| it.waited.from >= from && it.waited.from <= to);
        due.max_by_key(|it| it.late).copied()
    }
}
