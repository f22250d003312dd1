//! The auditor: looks at everything in the buckets of a deployment, tells what is not as
//! `docs/redis-layout.md` has it, and mends it if asked to.
//!
//! ```text
//!  key_walk   SCAN ──► which keys there are; types and times to live
//!  hints      the lists, from the tail to the head ──► which jobs they name
//!  records    chunk by chunk ──► what a job seems to lack
//!  indexes    names, due, slots, bodies, the sequence
//!  counts     jobs of each queue, compared with what it counts
//!  lanes      lanes with jobs, compared with the table of lanes
//!               │
//!               ▼ verbs/audit.rs: one script looks at one thing again, in one step, and may mend it
//! ```
//!
//! Buckets are at work meanwhile, so what a walk sees is not of one moment: it raises doubts, no more. A
//! doubt becomes a finding when a script has looked again, or, where that would take too long for one
//! call, when a second walk through the lists did not find what was missing and the record of the job is
//! still the same (`docs/decisions/0019-auditor.md`).

mod bucket;
mod counts;
mod finding;
mod hints;
mod indexes;
mod key_walk;
mod lanes;
mod records;
mod whereabouts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::keys;
use tokio::time::sleep;

use crate::{Store, StoreError};
use bucket::BucketAudit;

pub use finding::{Defect, Finding};

/// How many times a lock whose holder is not on the roster is checked again. Other pumps take such a lock within one
/// call, which may fail and be repeated: the 10 s are three times the longest call.
const LOCK_CHECKS: u32 = 20;
/// The pause before each of these checks. A pump that joins the roster again stays on it for longer.
const LOCK_PAUSE: Duration = Duration::from_millis(500);

/// What is audited, and how.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// The buckets; empty = all.
    pub buckets: Vec<u16>,
    /// Whether what is found is mended.
    pub repair: bool,
    /// The pause after each call, so that Redis has time for others.
    pub pause: Duration,
}

/// What is told while an audit goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditEvent {
    /// Something is amiss.
    Found(Finding),
    /// A bucket has been looked through.
    BucketDone {
        /// The bucket.
        bucket: u16,
        /// The jobs that it had.
        jobs: u64,
    },
}

/// What an audit came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuditSummary {
    /// Buckets that were looked through.
    pub buckets: u64,
    /// Jobs that were looked at.
    pub jobs: u64,
    /// What was amiss.
    pub found: u64,
    /// How much of it was mended.
    pub mended: u64,
    /// Queues whose counts could not be compared, since their jobs changed in each look.
    pub uncounted: u64,
}

/// Where findings go.
pub(super) struct Report<'a> {
    on_event: &'a mut (dyn FnMut(AuditEvent) + Send),
    summary: AuditSummary,
}

impl Report<'_> {
    pub(super) fn found(&mut self, bucket: Option<u16>, defect: Defect, mended: bool) {
        self.summary.found += 1;
        self.summary.mended += u64::from(mended);
        let finding = Finding {
            bucket,
            defect,
            mended,
        };
        (self.on_event)(AuditEvent::Found(finding));
    }

    fn done(&mut self, bucket: u16, jobs: u64, uncounted: u64) {
        self.summary.buckets += 1;
        self.summary.jobs += jobs;
        self.summary.uncounted += uncounted;
        (self.on_event)(AuditEvent::BucketDone { bucket, jobs });
    }
}

impl Store {
    /// Looks through buckets, and tells what is amiss as it is found. The deployment may be at work: a
    /// finding is never a change that was under way. No call holds Redis for much more than a millisecond.
    /// Memory: some bytes for each job of the largest bucket, and for each chunk and body of all.
    ///
    /// # Errors
    /// Redis is unavailable, or keys go from one server to another. What was told until then holds.
    pub async fn audit(
        &self,
        options: &AuditOptions,
        on_event: &mut (dyn FnMut(AuditEvent) + Send),
    ) -> Result<AuditSummary, StoreError> {
        let mut report = Report {
            on_event,
            summary: AuditSummary::default(),
        };
        let is_asked =
            |bucket: &u16| options.buckets.is_empty() || options.buckets.contains(bucket);
        // Read before the keys: chunks that come later are found by their numbers, so none is missed.
        let mut sequences = Vec::new();
        for bucket in self.all_buckets().filter(is_asked) {
            sequences.push((bucket, self.sequence(bucket).await?));
        }
        let mut found = key_walk::walk(self, options, &mut report).await?;
        let mut locks = Vec::new();
        let rosters = self.rosters();
        for (bucket, first_sequence) in sequences {
            let keys = found.remove(&bucket).unwrap_or_default();
            let mut audit = BucketAudit::new(self, options, bucket, keys);
            audit.run(first_sequence, &mut report).await?;
            report.done(bucket, audit.jobs(), audit.uncounted());
            locks.extend(
                self.lock_of_nobody(bucket, &rosters)
                    .await?
                    .map(|holder| (bucket, holder)),
            );
        }
        self.audit_locks(options, locks, &mut report).await?;
        Ok(report.summary)
    }

    /// The last job number of a bucket.
    pub(super) async fn sequence(&self, bucket: u16) -> Result<u64, StoreError> {
        let mut get = redis::cmd("GET");
        get.arg(self.keys(bucket).key(&keys::BucketKey::Sequence));
        let last: Option<u64> = self.command(&get).await?;
        Ok(last.unwrap_or(0))
    }

    /// The bucket that has the roster of each server.
    fn rosters(&self) -> BTreeMap<Arc<str>, u16> {
        let servers = self.buckets_by_server().into_iter();
        servers.map(|it| (it.address, it.roster)).collect()
    }

    /// The holder of a lock, if it is not on the roster.
    async fn lock_of_nobody(
        &self,
        bucket: u16,
        rosters: &BTreeMap<Arc<str>, u16>,
    ) -> Result<Option<String>, StoreError> {
        let lock = self.keys(bucket).lock();
        let holder: Option<String> = self
            .command(&redis::cmd("GET").arg(lock).to_owned())
            .await?;
        let Some(holder) = holder else {
            return Ok(None);
        };
        let server = self.server_of(bucket);
        let roster = server.and_then(|server| rosters.get(&server).copied());
        let mut membership = redis::cmd("ZSCORE");
        let roster = self.keys(roster.unwrap_or(bucket)).roster();
        membership.arg(roster).arg(&holder);
        let ends: Option<f64> = self.command(&membership).await?;
        Ok(ends.is_none().then_some(holder))
    }

    /// Checks these locks again for 10 s. A lock is reported if in all checks it had the same holder, and that was not
    /// on the roster: a lock may have a dead holder until another pump takes it, and a pump may leave the roster twice.
    async fn audit_locks(
        &self,
        options: &AuditOptions,
        mut doubtful: Vec<(u16, String)>,
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        for _ in 0..LOCK_CHECKS {
            if doubtful.is_empty() {
                return Ok(());
            }
            sleep(LOCK_PAUSE).await;
            let rosters = self.rosters();
            let mut still = Vec::new();
            for (bucket, holder) in doubtful {
                if self.lock_of_nobody(bucket, &rosters).await?.as_ref() == Some(&holder) {
                    still.push((bucket, holder));
                }
            }
            doubtful = still;
        }
        for (bucket, holder) in doubtful {
            if options.repair {
                self.lease_release(bucket, &holder).await?;
            }
            report.found(
                Some(bucket),
                Defect::LockOfNobody { holder },
                options.repair,
            );
        }
        Ok(())
    }
}
