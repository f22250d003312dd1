//! The audit of one bucket.

use redis::{FromRedisValue, Pipeline};
use tidegate_core::codec::HEADER_BYTES;
use tidegate_core::keys::{BucketKey, BucketKeys};
use tokio::time::sleep;

use super::cold::ReferredSegments;
use super::finding::Inconsistency;
use super::key_walk::FoundKeys;
use super::report::{AuditOptions, AuditReport};
use crate::bodies::UPLOAD_MS;
use crate::error::StoreError;
use crate::store::Store;
use crate::table::NamespacedName;
use crate::verbs::{
    CheckOutcome, IDEMPOTENCY_MS_MAX, IndexCheck, JobCheck, MissingCounts, UNITS_MS_MAX,
};
use crate::waiter_id::REGISTERED_MS_MAX;

/// Maximum of `pump.lease`, and so maximum time to live of a roster, in ms.
const LEASE_MS_MAX: u64 = 3_600_000;

/// Number of cheap commands per pipeline.
pub(super) const COMMANDS_PER_CALL: usize = 200;

/// A schedule, and the bucket that has its tick or should have it.
pub(super) type PlacedSchedule = (u16, NamespacedName);

/// A bucket that is being audited.
pub(super) struct BucketAudit<'a> {
    pub(super) store: &'a Store,
    pub(super) options: &'a AuditOptions,
    pub(super) bucket: u16,
    pub(super) names: &'a BucketKeys,
    pub(super) keys: FoundKeys,
    pub(super) segments: ReferredSegments,
    pub(super) report: AuditReport<'a>,
}

impl<'a> BucketAudit<'a> {
    /// Runs all checks. Names are checked before jobs, since a queue may get its name back; queues without a name after
    /// their jobs; counts after all repairs that change them. `first_sequence` is the last job number, read before the
    /// keys. Returns the report, the segments, and the schedules that the bucket
    /// knows.
    pub(super) async fn run(
        mut self,
        first_sequence: u64,
    ) -> Result<(AuditReport<'a>, ReferredSegments, Vec<PlacedSchedule>), StoreError> {
        self.check_keys().await?;
        let named = self.check_names().await?;
        let queues = self.name(&BucketKey::Queues);
        self.store
            .audit_namespaces(Some(self.bucket), &queues, self.options, &mut self.report)
            .await?;
        let hints = self.read_hints().await?;
        let mut records = self.check_records(&hints).await?;
        drop(hints);
        let jobs = records.jobs();
        self.check_suspects(&records).await?;
        self.check_job_keys(&records).await?;
        self.check_key_index().await?;
        self.check_indexes().await?;
        self.check_queues(&named).await?;
        if records.highest > self.sequence().await? {
            self.check_index(IndexCheck::Sequence(records.highest))
                .await?;
        }
        let keyed = std::mem::take(&mut records.keyed);
        let uncounted = self.check_counts(records, first_sequence).await?;
        self.check_lanes(&named).await?;
        self.check_key_lanes(&named, &keyed).await?;
        let schedules = self.known_schedules().await?;
        self.report.done(self.bucket, jobs, uncounted);
        Ok((self.report, self.segments, schedules))
    }

    /// The full name of a key.
    pub(super) fn name(&self, key: &BucketKey) -> String {
        self.names.key(key)
    }

    /// The last job number.
    pub(super) async fn sequence(&self) -> Result<u64, StoreError> {
        self.store.sequence(self.bucket).await
    }

    /// Runs a command, then pauses.
    pub(super) async fn command<T: FromRedisValue>(
        &self,
        command: &redis::Cmd,
    ) -> Result<T, StoreError> {
        let answer = self.store.command(command).await;
        sleep(self.options.pause).await;
        answer
    }

    /// Runs commands in one pipeline, then pauses.
    pub(super) async fn commands<T: FromRedisValue>(
        &self,
        commands: &Pipeline,
    ) -> Result<T, StoreError> {
        let answer = self.store.read(&self.names.queues(), commands).await;
        sleep(self.options.pause).await;
        answer
    }

    /// Checks a job, and reports it if it is inconsistent.
    pub(super) async fn check_job(
        &mut self,
        doubt: JobCheck,
        job: u64,
        record: &[u8],
        defect: Inconsistency,
    ) -> Result<(), StoreError> {
        let (store, repair) = (self.store, self.options.repair);
        let look = store.audit_job(self.bucket, repair, doubt, job, record);
        self.report_outcome(look.await, defect).await
    }

    /// Checks an item, and reports it if it is inconsistent.
    pub(super) async fn check_index(&mut self, doubt: IndexCheck) -> Result<(), StoreError> {
        let store = self.store;
        let look = store.audit_index(self.bucket, self.options.repair, &doubt);
        let look = look.await;
        let defect = match doubt {
            IndexCheck::Due(queue) => Inconsistency::QueueNotDue { queue },
            IndexCheck::Slot(slot) => Inconsistency::BadSlot { slot },
            IndexCheck::Line(line) => Inconsistency::BadTurn { line },
            IndexCheck::Name(name, queue) => Inconsistency::MissingQueueName { name, queue },
            IndexCheck::Unnamed(queue) => Inconsistency::OrphanedQueue { queue },
            IndexCheck::Number(queue) => Inconsistency::QueueAhead { queue },
            IndexCheck::Sequence(job) => Inconsistency::JobAhead { job },
            IndexCheck::JobKey(BucketKey::Body(job)) => Inconsistency::OrphanedBody { job },
            IndexCheck::JobKey(key) => Inconsistency::OrphanedJobKey {
                key: self.name(&key),
            },
            IndexCheck::KeyEntry(hash) => Inconsistency::StaleKey {
                hash: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            },
            IndexCheck::Ttl(key, _) => Inconsistency::TimeToLive {
                key: self.name(&key),
            },
        };
        self.report_outcome(look, defect).await
    }

    /// Reports wrong counts of a queue, and corrects them with `repair`: of many groups some at a time.
    pub(super) async fn correct(
        &mut self,
        queue: u32,
        corrected: u64,
        missing: MissingCounts,
    ) -> Result<(), StoreError> {
        let (groups, jobs) = (missing.running.len(), missing.jobs);
        let mut look = Ok(CheckOutcome::Inconsistent);
        if self.options.repair {
            let (store, bucket) = (self.store, self.bucket);
            for (calls, missing) in (0..).zip(missing.in_parts()) {
                look = store
                    .audit_counts(bucket, queue, corrected + calls, &missing)
                    .await;
                if !matches!(look, Ok(CheckOutcome::Repaired)) {
                    break;
                }
            }
        }
        let defect = match jobs {
            [0, 0, 0, 0, 0] => Inconsistency::WrongGroupCounts { queue, groups },
            missing => Inconsistency::WrongCounts { queue, missing },
        };
        self.report_outcome(look, defect).await
    }

    async fn report_outcome(
        &mut self,
        look: Result<CheckOutcome, StoreError>,
        defect: Inconsistency,
    ) -> Result<(), StoreError> {
        let verdict = match look {
            // A key that the script uses has the wrong type. It is not repaired.
            Err(StoreError::Corrupt(_)) => CheckOutcome::Inconsistent,
            look => look?,
        };
        if verdict != CheckOutcome::Sound {
            self.found(defect, verdict == CheckOutcome::Repaired);
        }
        sleep(self.options.pause).await;
        Ok(())
    }

    /// Reports a defect in this bucket.
    pub(super) fn found(&mut self, defect: Inconsistency, is_repaired: bool) {
        self.report.found(Some(self.bucket), defect, is_repaired);
    }

    /// Checks types and times to live.
    async fn check_keys(&mut self) -> Result<(), StoreError> {
        let keys: Vec<BucketKey> = self.keys.iter().collect();
        for keys in keys.chunks(COMMANDS_PER_CALL / 2) {
            let mut commands = redis::pipe();
            for key in keys {
                commands.cmd("TYPE").arg(self.name(key));
                commands.cmd("PTTL").arg(self.name(key));
            }
            let answers: Vec<redis::Value> = self.commands(&commands).await?;
            for (key, answer) in keys.iter().zip(answers.chunks_exact(2)) {
                let found: String = redis::from_redis_value_ref(&answer[0]).unwrap_or_default();
                let left_ms: i64 = redis::from_redis_value_ref(&answer[1]).unwrap_or(GONE);
                self.check_type(key, &found);
                self.check_time_to_live(key, left_ms).await?;
            }
        }
        Ok(())
    }

    fn check_type(&mut self, key: &BucketKey, found: &str) {
        if [key.key_type().word(), "none"].contains(&found) {
            return;
        }
        self.keys.remove(key);
        let defect = Inconsistency::WrongType {
            key: self.name(key),
            found: found.to_owned(),
        };
        self.found(defect, false);
    }

    async fn check_time_to_live(
        &mut self,
        key: &BucketKey,
        left_ms: i64,
    ) -> Result<(), StoreError> {
        let longest_ms = match key {
            BucketKey::Upload(_) => UPLOAD_MS,
            BucketKey::Roster => LEASE_MS_MAX,
            BucketKey::Idempotency(_) => IDEMPOTENCY_MS_MAX,
            BucketKey::Waiting(_) => REGISTERED_MS_MAX,
            BucketKey::Rate(_) | BucketKey::Limit(_) | BucketKey::Publishes(_) => UNITS_MS_MAX,
            _ => 0,
        };
        let is_right = match u64::try_from(left_ms) {
            // A clock that is set back lengthens it.
            Ok(left_ms) => left_ms <= 2 * longest_ms && longest_ms > 0,
            Err(_) => left_ms == GONE || longest_ms == 0,
        };
        if is_right {
            return Ok(());
        }
        self.check_index(IndexCheck::Ttl(key.clone(), longest_ms))
            .await
    }
}

/// The header of a record. Each change of a job changes it, except a replacement by a job with the same times.
pub(super) fn head(record: &[u8]) -> &[u8] {
    record.get(..HEADER_BYTES).unwrap_or(record)
}

/// The reply of `PTTL` if the key does not exist.
const GONE: i64 = -2;
