//! The auditor: reads everything in the buckets of a deployment, reports what is inconsistent with
//! `docs/redis-layout.md`, and repairs it if asked to.
//!
//! ```text
//!  key_walk   SCAN ──► the keys
//!  bucket     types and times to live of keys
//!  hints      lists, from tail to head ──► the jobs that they name
//!  records    chunk by chunk ──► jobs that may lack something
//!  payloads   decoded, also outside of records
//!  indexes    names, due, slots, bodies
//!  counts     records of each queue, compared with its counts
//!  lanes      lanes with jobs, and lanes of keys, compared with the table of lanes
//!  namespaces names, compared with the counts for limits
//!  cold       segments of the cold tier, compared with a listing of the object store
//!  schedules  definitions, compared with the ticks in the buckets
//!               │
//!               ▼ verbs/audit.rs: a script checks one item again, atomically, and may repair it
//! ```
//!
//! Daemons run at the same time, so a walk does not see a snapshot: it only raises suspicions. A suspicion becomes a
//! finding when a script has checked the item again; or, where that would take too long for one call, when a second
//! walk through the lists did not find the missing hint and the record of the job is unchanged
//! (`docs/decisions/0019-auditor.md`).

mod bucket;
mod cold;
mod counts;
mod finding;
mod hints;
mod indexes;
mod key_lanes;
mod key_walk;
mod lanes;
mod namespaces;
mod payloads;
mod records;
mod report;
mod schedules;
mod slot_distribution;

use std::collections::BTreeSet;

use redis::Cmd;
use tidegate_core::keys::{self, KeyType};
use tokio::time::sleep;

use crate::error::StoreError;
use crate::store::Store;
use bucket::BucketAudit;
use cold::ReferredSegments;

pub use finding::{AuditFinding, Inconsistency};
pub use report::{AuditEvent, AuditOptions, AuditSummary};

use report::{AuditReport, RECHECK_PAUSE, RECHECKS};

impl Store {
    /// Audits buckets, and reports each finding immediately. Daemons may run: a change in progress is never a finding.
    /// No call blocks Redis for much more than 1 ms. Memory: a few bytes for each job of the largest bucket, and for
    /// each chunk and body of the deployment.
    ///
    /// # Errors
    /// Redis is unavailable, or keys are moving between servers. Findings that were reported before are valid.
    pub async fn audit(
        &self,
        options: &AuditOptions,
        on_event: &mut (dyn FnMut(AuditEvent) + Send),
    ) -> Result<AuditSummary, StoreError> {
        let mut report = AuditReport {
            on_event,
            summary: AuditSummary::default(),
        };
        let is_asked =
            |bucket: &u16| options.buckets.is_empty() || options.buckets.contains(bucket);
        // Read before the keys: later chunks are found by their numbers, so none is missed.
        let mut sequences = Vec::new();
        for bucket in self.all_buckets().filter(is_asked) {
            sequences.push((bucket, self.sequence(bucket).await?));
        }
        let mut found = key_walk::walk(self, options, &mut report).await?;
        let defined = self.defined_schedules(found.scheduled, &mut report);
        let mut schedules: BTreeSet<_> = defined.await?.into_iter().collect();
        schedules.retain(|(bucket, _)| is_asked(bucket));
        let (mut locks, mut segments) = (Vec::new(), ReferredSegments::default());
        for (bucket, first_sequence) in sequences {
            let keys = found.buckets.remove(&bucket).unwrap_or_default();
            let audit = BucketAudit {
                store: self,
                options,
                bucket,
                names: self.keys(bucket),
                keys,
                segments,
                report,
            };
            let (next, referred, known) = audit.run(first_sequence).await?;
            (report, segments) = (next, referred);
            schedules.extend(known);
            let holder = self.orphaned_lock(bucket).await?;
            locks.extend(holder.map(|holder| (bucket, holder)));
        }
        self.audit_tables(options, &mut report).await?;
        self.audit_schedules(options, schedules, &mut report)
            .await?;
        self.audit_segments(segments, &mut report).await?;
        self.audit_locks(options, locks, &mut report).await?;
        Ok(report.summary)
    }

    /// The last job number of a bucket.
    pub(super) async fn sequence(&self, bucket: u16) -> Result<u64, StoreError> {
        let key = self.keys(bucket).key(&keys::BucketKey::Sequence);
        let last: Result<Option<u64>, StoreError> = self.command(&Cmd::get(&key)).await;
        match last {
            Ok(last) => Ok(last.unwrap_or(0)),
            Err(StoreError::Corrupt(detail)) => Err(StoreError::Corrupt(format!(
                "{key} is no number ({detail}): set it to one above the number of each job in its bucket"
            ))),
            Err(error) => Err(error),
        }
    }

    /// Whether there is a hash with this key. A key of another type is reported.
    async fn has_hash(&self, key: &str, report: &mut AuditReport<'_>) -> Result<bool, StoreError> {
        let found: String = self.command(redis::cmd("TYPE").arg(key)).await?;
        let is_hash = found == KeyType::Hash.word();
        if !is_hash && found != "none" {
            let key = key.to_owned();
            report.found(None, Inconsistency::WrongType { key, found }, false);
        }
        Ok(is_hash)
    }

    /// The holder of the lock of a bucket, if it is not on the roster.
    async fn orphaned_lock(&self, bucket: u16) -> Result<Option<String>, StoreError> {
        let get = Cmd::get(self.keys(bucket).lock());
        let Some(holder) = self.command::<Option<String>>(&get).await? else {
            return Ok(None);
        };
        let end_ms = self.membership_end_ms(bucket, &holder).await?;
        Ok(end_ms.is_none().then_some(holder))
    }

    /// Checks these locks again for 10 s. A lock is reported if in all checks it had the same holder, and that was not
    /// on the roster: a lock may have a dead holder until another pump takes it, and a pump may leave the roster twice.
    async fn audit_locks(
        &self,
        options: &AuditOptions,
        mut doubtful: Vec<(u16, String)>,
        report: &mut AuditReport<'_>,
    ) -> Result<(), StoreError> {
        for _ in 0..RECHECKS {
            if doubtful.is_empty() {
                return Ok(());
            }
            sleep(RECHECK_PAUSE).await;
            let mut still = Vec::new();
            for (bucket, holder) in doubtful {
                if self.orphaned_lock(bucket).await?.as_ref() == Some(&holder) {
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
                Inconsistency::OrphanedLock { holder },
                options.repair,
            );
        }
        Ok(())
    }
}
