//! The options, events and result of an audit.

use std::time::Duration;

use super::finding::{AuditFinding, Inconsistency};

/// How many times a change that several calls make is checked again: a lock whose holder is not on the roster, and a
/// schedule whose tick differs from its definition. Other pumps take such a lock within one call, which may fail and be
/// repeated: the 10 s are three times the longest call.
pub(super) const RECHECKS: u32 = 20;
/// The pause before each of these checks. A pump that joins the roster again stays on it for longer.
pub(super) const RECHECK_PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// The buckets to audit; empty = all.
    pub buckets: Vec<u16>,
    /// Whether to repair findings.
    pub repair: bool,
    /// Pause after each call, so that Redis can serve other clients.
    pub pause: Duration,
}

/// An event during an audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditEvent {
    /// An inconsistency was found.
    Found(AuditFinding),
    /// A bucket was audited.
    BucketDone {
        bucket: u16,
        /// Number of its jobs.
        jobs: u64,
    },
}

/// The result of an audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuditSummary {
    /// Number of buckets that were audited.
    pub buckets: u64,
    /// Number of jobs that were checked.
    pub jobs: u64,
    /// Number of findings.
    pub found: u64,
    /// Number of findings that were repaired.
    pub repaired: u64,
    /// Number of queues whose counts could not be compared, because their jobs changed during each attempt.
    pub queues_not_compared: u64,
    /// Number of segments of the cold tier that were not looked for, because the object store could not be listed.
    pub segments_not_checked: u64,
}

/// Passes on findings, and counts them.
pub(super) struct AuditReport<'a> {
    pub(super) on_event: &'a mut (dyn FnMut(AuditEvent) + Send),
    pub(super) summary: AuditSummary,
}

impl AuditReport<'_> {
    pub(super) fn found(&mut self, bucket: Option<u16>, defect: Inconsistency, is_repaired: bool) {
        self.summary.found += 1;
        self.summary.repaired += u64::from(is_repaired);
        let finding = AuditFinding {
            bucket,
            defect,
            repaired: is_repaired,
        };
        (self.on_event)(AuditEvent::Found(finding));
    }

    pub(super) fn done(&mut self, bucket: u16, jobs: u64, uncounted: u64) {
        self.summary.buckets += 1;
        self.summary.jobs += jobs;
        self.summary.queues_not_compared += uncounted;
        (self.on_event)(AuditEvent::BucketDone { bucket, jobs });
    }
}
