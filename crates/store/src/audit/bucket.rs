//! One bucket, from its keys to its counts.

use redis::{FromRedisValue, Pipeline};
use tidegate_core::keys::{BucketKey, BucketKeys};
use tokio::time::sleep;

use super::key_walk::FoundKeys;
use super::{AuditOptions, Defect, Report};
use crate::bodies::UPLOAD_MS;
use crate::verbs::{IndexDoubt, JobDoubt, Verdict};
use crate::{Store, StoreError};

/// The longest lease of a pump, and so the longest time to live of a roster.
const LEASE_MS_MAX: u64 = 3_600_000;

/// How many cheap commands go together.
pub(super) const COMMANDS_PER_CALL: usize = 200;

/// A bucket that is being looked through.
pub(super) struct BucketAudit<'a> {
    pub(super) store: &'a Store,
    pub(super) options: &'a AuditOptions,
    pub(super) bucket: u16,
    names: &'a BucketKeys,
    keys: FoundKeys,
    jobs: u64,
    uncounted: u64,
}

impl<'a> BucketAudit<'a> {
    pub(super) fn new(
        store: &'a Store,
        options: &'a AuditOptions,
        bucket: u16,
        keys: FoundKeys,
    ) -> Self {
        Self {
            store,
            options,
            bucket,
            names: store.keys(bucket),
            keys,
            jobs: 0,
            uncounted: 0,
        }
    }

    /// Looks through everything. Names come before jobs, which may belong to a queue that gets its name back; queues
    /// without a name come after the jobs that belonged to them; counts come behind all that changes them when it is mended.
    /// `first_sequence` is the last job number from before the keys were found.
    pub(super) async fn run(
        &mut self,
        first_sequence: u64,
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        self.check_keys(report).await?;
        let named = self.check_names(report).await?;
        let hints = self.read_hints().await?;
        let records = self.check_records(&hints, report).await?;
        drop(hints);
        self.jobs = records.jobs();
        self.check_suspects(&records, report).await?;
        self.check_bodies(&records, report).await?;
        self.check_indexes(report).await?;
        self.check_queues(&named, report).await?;
        let highest = records.highest();
        if highest > self.sequence().await? {
            let doubt = IndexDoubt::Sequence(highest);
            self.look(doubt, Defect::JobAhead { job: highest }, report)
                .await?;
        }
        self.uncounted = self.check_counts(records, first_sequence, report).await?;
        self.check_lanes(&named, report).await
    }

    pub(super) const fn jobs(&self) -> u64 {
        self.jobs
    }

    pub(super) const fn uncounted(&self) -> u64 {
        self.uncounted
    }

    pub(super) const fn keys(&self) -> &FoundKeys {
        &self.keys
    }

    /// The full name of a key.
    pub(super) fn name(&self, key: &BucketKey) -> String {
        self.names.key(key)
    }

    /// The last job number.
    pub(super) async fn sequence(&self) -> Result<u64, StoreError> {
        self.store.sequence(self.bucket).await
    }

    /// Runs one command, and pauses.
    pub(super) async fn command<T: FromRedisValue>(
        &self,
        command: &redis::Cmd,
    ) -> Result<T, StoreError> {
        let answer = self.store.command(command).await;
        sleep(self.options.pause).await;
        answer
    }

    /// Runs some commands, and pauses.
    pub(super) async fn commands<T: FromRedisValue>(
        &self,
        commands: &Pipeline,
    ) -> Result<T, StoreError> {
        let answer = self.store.look_up(&self.names.queues(), commands).await;
        sleep(self.options.pause).await;
        answer
    }

    /// Looks again at a job, and tells of what is amiss.
    pub(super) async fn look_at_job(
        &self,
        doubt: JobDoubt,
        job: u64,
        header: &[u8],
        defect: Defect,
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        let store = self.store;
        let look = store.audit_job(self.bucket, self.options.repair, doubt, job, header);
        self.tell(look.await, defect, report).await
    }

    /// Looks again at what leads to jobs, and tells of what is amiss.
    pub(super) async fn look(
        &self,
        doubt: IndexDoubt,
        defect: Defect,
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        let store = self.store;
        let look = store.audit_index(self.bucket, self.options.repair, &doubt);
        self.tell(look.await, defect, report).await
    }

    /// Corrects the counts of a queue, and tells of it.
    pub(super) async fn correct(
        &self,
        queue: u32,
        corrected: u64,
        missing: [i64; 4],
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        let look = match self.options.repair {
            true => {
                let store = self.store;
                let correction = store.audit_counts(self.bucket, queue, corrected, missing);
                correction.await
            }
            false => Ok(Verdict::Amiss),
        };
        let defect = Defect::WrongCounts { queue, missing };
        self.tell(look, defect, report).await
    }

    async fn tell(
        &self,
        look: Result<Verdict, StoreError>,
        defect: Defect,
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        let verdict = match look {
            // Something that the script touches is of the wrong type: it stays as it is.
            Err(StoreError::Corrupt(_)) => Verdict::Amiss,
            look => look?,
        };
        if verdict != Verdict::Sound {
            report.found(Some(self.bucket), defect, verdict == Verdict::Mended);
        }
        sleep(self.options.pause).await;
        Ok(())
    }

    /// Types and times to live.
    async fn check_keys(&mut self, report: &mut Report<'_>) -> Result<(), StoreError> {
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
                self.check_type(key, &found, report);
                self.check_time_to_live(key, left_ms, report).await?;
            }
        }
        Ok(())
    }

    fn check_type(&mut self, key: &BucketKey, found: &str, report: &mut Report<'_>) {
        if [key.key_type().word(), "none"].contains(&found) {
            return;
        }
        self.keys.remove(key);
        let defect = Defect::WrongType {
            key: self.name(key),
            found: found.to_owned(),
        };
        report.found(Some(self.bucket), defect, false);
    }

    async fn check_time_to_live(
        &self,
        key: &BucketKey,
        left_ms: i64,
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        let longest_ms = match key {
            BucketKey::Upload(_) => UPLOAD_MS,
            BucketKey::Roster => LEASE_MS_MAX,
            _ => 0,
        };
        let is_right = match u64::try_from(left_ms) {
            Ok(left_ms) => longest_ms > 0 && left_ms <= longest_ms,
            Err(_) => left_ms == GONE || longest_ms == 0,
        };
        if is_right {
            return Ok(());
        }
        let defect = Defect::TimeToLive {
            key: self.name(key),
        };
        let doubt = IndexDoubt::Ttl(key.clone(), longest_ms);
        self.look(doubt, defect, report).await
    }
}

/// What PTTL answers where there is no key.
const GONE: i64 = -2;
