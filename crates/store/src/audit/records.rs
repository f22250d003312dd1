//! Checks of the records of a bucket, chunk by chunk.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use tidegate_core::codec::{InvalidRecord, RecordFlags, RecordHeader, RecordParts};
use tidegate_core::keys::BucketKey;
use tidegate_core::layout::CHUNK_JOBS;
use tidegate_core::{GroupHash, JobId, JobState, KeyHash, SlotWidth};

use super::bucket::{BucketAudit, head};
use super::finding::Inconsistency;
use super::hints::Hints;
use crate::error::StoreError;
use crate::verbs::JobCheck;

/// Number of chunks per call. A chunk has about 8 KiB at most.
pub(super) const CHUNKS_PER_CALL: usize = 8;

/// Fields and values of a hash.
pub(super) type Fields = Vec<(Vec<u8>, Bytes)>;

pub(super) struct ReadJob {
    pub(super) number: u64,
    pub(super) record: Bytes,
    pub(super) header: RecordHeader,
}

/// The number of jobs of each queue in each state and of leased ones in each group, and a fingerprint of their headers.
#[derive(Debug, Default, Clone)]
pub(super) struct Tally {
    pub(super) counts: HashMap<u32, [i64; 5]>,
    /// Leased jobs by group.
    pub(super) running: HashMap<u32, BTreeMap<GroupHash, i64>>,
    pub(super) prints: HashMap<u32, u64>,
}

impl Tally {
    pub(super) fn add(&mut self, number: u64, header: &RecordHeader, record: &Bytes) {
        let counts = self.counts.entry(header.queue).or_default();
        counts[header.state as usize - 1] += 1;
        if header.state == JobState::Leased && header.flags.has(RecordFlags::GROUPED) {
            let group = RecordParts::split(record)
                .ok()
                .and_then(|it| it.group_hash());
            let running = self.running.entry(header.queue).or_default();
            if let Some(group) = group {
                *running.entry(group).or_default() += 1;
            }
        }
        let mut print = DefaultHasher::new();
        (number, header.encode()).hash(&mut print);
        let sum = self.prints.entry(header.queue).or_default();
        *sum = sum.wrapping_add(print.finish());
    }
}

/// A job that no list seems to name.
pub(super) struct Suspect {
    header: RecordHeader,
    /// The list that must name it.
    list: BucketKey,
    bytes: Bytes,
}

/// A job with a key.
pub(super) struct KeyedJob {
    pub(super) queue: u32,
    pub(super) id: JobId,
    pub(super) key: KeyHash,
}

/// The result of reading the records.
#[derive(Default)]
pub(super) struct Records {
    pub(super) tally: Tally,
    pub(super) suspects: BTreeMap<u64, Suspect>,
    /// The jobs whose bodies are outside of their records.
    pub(super) outside: BTreeSet<u64>,
    /// The jobs with a waiting version.
    pub(super) with_next: BTreeSet<u64>,
    /// The jobs with a history.
    pub(super) logged: BTreeSet<u64>,
    pub(super) highest: u64,
    /// The jobs with keys.
    pub(super) keyed: Vec<KeyedJob>,
}

impl Records {
    pub(super) fn jobs(&self) -> u64 {
        let counts = self.tally.counts.values().flatten();
        counts.sum::<i64>().unsigned_abs()
    }
}

/// The list that must name a job: of far slots the last that may.
fn list_of(job: &ReadJob, slots: SlotWidth) -> BucketKey {
    let header = &job.header;
    match header.state {
        JobState::Delayed | JobState::Leased => BucketKey::Far(slots.slots_of(header.due_at_ms)[0]),
        JobState::Ready => match RecordParts::split(&job.record)
            .ok()
            .and_then(|it| it.ready_line())
        {
            None => BucketKey::Ready(header.queue),
            Some(line) => BucketKey::Line(line),
        },
        JobState::Dead => BucketKey::Dead(header.queue),
        // It is in no list: the sweep finds it by its expiry.
        JobState::Done => BucketKey::Expiry,
    }
}

impl BucketAudit<'_> {
    /// Reads and checks all records. Suspicions that one call can check are checked immediately.
    pub(super) async fn check_records(&mut self, hints: &Hints) -> Result<Records, StoreError> {
        let mut records = Records::default();
        for chunks in self.keys.chunks.clone().chunks(CHUNKS_PER_CALL) {
            let mut page = Vec::new();
            for (chunk, fields) in chunks.iter().zip(self.read_chunks(chunks).await?) {
                for (field, record) in fields {
                    page.extend(self.readable(*chunk, &field, record).await?);
                }
            }
            for job in &page {
                records.tally.add(job.number, &job.header, &job.record);
                records.highest = records.highest.max(job.number);
            }
            self.check_payloads(&page, &mut records).await?;
            self.check_queues_of(&page).await?;
            self.check_hints(&page, hints, &mut records).await?;
            self.check_expiries(&page).await?;
            self.check_keys_of(&page, &mut records).await?;
        }
        Ok(records)
    }

    /// The fields of some chunks.
    pub(super) async fn read_chunks(&self, chunks: &[u64]) -> Result<Vec<Fields>, StoreError> {
        let mut commands = redis::pipe();
        for chunk in chunks {
            commands.hgetall(self.name(&BucketKey::Chunk(*chunk)));
        }
        self.commands(&commands).await
    }

    /// The job in a field of a chunk; reports the field if it is not a valid record.
    async fn readable(
        &mut self,
        chunk: u64,
        field: &[u8],
        record: Bytes,
    ) -> Result<Option<ReadJob>, StoreError> {
        let Some(number) = number_of(chunk, field) else {
            let defect = Inconsistency::UnknownField {
                key: self.name(&BucketKey::Chunk(chunk)),
                field: String::from_utf8_lossy(field).into_owned(),
            };
            self.found(defect, false);
            return Ok(None);
        };
        match RecordHeader::decode(&record) {
            Ok(header) => Ok(Some(ReadJob {
                number,
                record,
                header,
            })),
            Err(bad) => {
                self.corrupt(number, &record, bad).await?;
                Ok(None)
            }
        }
    }

    pub(super) async fn corrupt(
        &mut self,
        job: u64,
        record: &[u8],
        how: InvalidRecord,
    ) -> Result<(), StoreError> {
        let how = how.to_string();
        let defect = Inconsistency::Corrupt { job, how };
        self.check_job(JobCheck::Record, job, record, defect).await
    }

    /// Checks a job, and reports it if it is inconsistent.
    pub(super) async fn look_at(
        &mut self,
        job: &ReadJob,
        doubt: JobCheck,
        defect: Inconsistency,
    ) -> Result<(), StoreError> {
        self.check_job(doubt, job.number, &job.record, defect).await
    }

    pub(super) const fn id_of(&self, job: &ReadJob) -> JobId {
        job.header.id(self.bucket, job.number)
    }

    /// Checks that jobs with a key are found by it, and collects the jobs that have other keys.
    async fn check_keys_of(
        &mut self,
        page: &[ReadJob],
        records: &mut Records,
    ) -> Result<(), StoreError> {
        let mut keyed = Vec::new();
        for job in page {
            let has = |flag| job.header.flags.has(flag);
            if has(RecordFlags::NEXT_WAITS) {
                records.with_next.insert(job.number);
            }
            if has(RecordFlags::LOGGED) {
                records.logged.insert(job.number);
            }
            if job.header.state == JobState::Done && has(RecordFlags::AWAITED) {
                // Another job may have its key.
                continue;
            }
            let parts = RecordParts::split(&job.record).ok();
            keyed.extend(parts.and_then(|parts| Some((job, parts.key_hash()?))));
        }
        let indexed = keyed.iter().map(|(job, key)| KeyedJob {
            queue: job.header.queue,
            id: self.id_of(job),
            key: *key,
        });
        records.keyed.extend(indexed);
        for jobs in keyed.chunks(super::bucket::COMMANDS_PER_CALL) {
            let mut commands = redis::pipe();
            for (_, hash) in jobs {
                commands.hget(self.name(&BucketKey::KeyIndex(hash.shard())), &hash.0[..]);
            }
            let found: Vec<Option<u64>> = self.commands(&commands).await?;
            for ((job, _), number) in jobs.iter().zip(found) {
                if number != Some(job.number) {
                    let id = self.id_of(job);
                    self.look_at(job, JobCheck::Key, Inconsistency::NotIndexed { id })
                        .await?;
                }
            }
        }
        Ok(())
    }

    async fn check_queues_of(&mut self, page: &[ReadJob]) -> Result<(), StoreError> {
        for job in page {
            let (id, queue) = (self.id_of(job), job.header.queue);
            if !self.has_queue(queue) {
                let defect = Inconsistency::NoQueue { id, queue };
                self.look_at(job, JobCheck::Queue, defect).await?;
            }
        }
        Ok(())
    }

    /// Collects jobs that neither a list nor a near timer names.
    async fn check_hints(
        &self,
        page: &[ReadJob],
        hints: &Hints,
        records: &mut Records,
    ) -> Result<(), StoreError> {
        let list_of = |job: &ReadJob| list_of(job, self.store.inner.slot_width);
        let unnamed = page
            .iter()
            .filter(|job| job.header.state != JobState::Done)
            .filter(|job| !hints.has(&list_of(job), job.number));
        let (timed, listed): (Vec<&ReadJob>, Vec<&ReadJob>) =
            unnamed.partition(|job| is_timed(job.header.state));
        let mut suspect = |job: &ReadJob| {
            let suspect = Suspect {
                header: job.header,
                list: list_of(job),
                bytes: Bytes::copy_from_slice(head(&job.record)),
            };
            records.suspects.insert(job.number, suspect);
        };
        listed.into_iter().for_each(&mut suspect);
        for jobs in timed.chunks(super::bucket::COMMANDS_PER_CALL) {
            let mut commands = redis::pipe();
            for job in jobs {
                let near = self.name(&BucketKey::Near(job.header.queue));
                commands.cmd("ZSCORE").arg(near).arg(job.number);
            }
            let timers: Vec<Option<f64>> = self.commands(&commands).await?;
            for (job, at_ms) in jobs.iter().zip(timers) {
                if at_ms.is_none_or(|at_ms| at_ms > job.header.due_at_ms as f64) {
                    suspect(job);
                }
            }
        }
        Ok(())
    }

    async fn check_expiries(&mut self, page: &[ReadJob]) -> Result<(), StoreError> {
        // The score of a chunk depends on the job that expires first.
        let mut first: BTreeMap<u64, &ReadJob> = BTreeMap::new();
        for job in page.iter().filter(|job| job.header.expires_at_ms > 0) {
            let known = first.entry(job.number / CHUNK_JOBS).or_insert(job);
            if job.header.expires_at_ms < known.header.expires_at_ms {
                *known = job;
            }
        }
        if first.is_empty() {
            return Ok(());
        }
        let mut commands = redis::pipe();
        for chunk in first.keys() {
            let expiry = self.name(&BucketKey::Expiry);
            commands.cmd("ZSCORE").arg(expiry).arg(chunk);
        }
        let known: Vec<Option<f64>> = self.commands(&commands).await?;
        for (job, at_ms) in first.into_values().zip(known) {
            if at_ms.is_none_or(|at_ms| at_ms > job.header.expires_at_ms as f64) {
                let id = self.id_of(job);
                self.look_at(job, JobCheck::Expiry, Inconsistency::NotSwept { id })
                    .await?;
            }
        }
        Ok(())
    }

    /// Walks through the lists again for the suspects. A suspect that is not found, and whose record is unchanged after
    /// that, is in no list: lists and records change together.
    pub(super) async fn check_suspects(&mut self, records: &Records) -> Result<(), StoreError> {
        let suspects = &records.suspects;
        if suspects.is_empty() {
            return Ok(());
        }
        let width = self.store.inner.slot_width;
        let mut named = BTreeSet::new();
        // The hint of a long lease is in slots before its end, one after the other. It may move to a slot that did not
        // exist when the index was read, but hardly twice.
        for _ in 0..2 {
            let own = suspects.values().flat_map(|suspect| suspect.lists(width));
            let slots = self.indexed_slots().await?.into_iter();
            let known = self.keys.others.iter();
            let known = known.filter(|key| matches!(key, BucketKey::Far(_)));
            let slots = slots.map(BucketKey::Far).chain(known.cloned());
            for list in own.chain(slots).collect::<BTreeSet<_>>() {
                let is_suspect =
                    |number: &u64| suspects.get(number).is_some_and(|it| it.is_named_by(&list));
                let mut note = |number: u64| named.extend(Some(number).filter(is_suspect));
                self.read_list(&list, &mut note).await?;
            }
        }
        for (job, suspect) in suspects.iter().filter(|(job, _)| !named.contains(job)) {
            let (id, state) = (suspect.header.id(self.bucket, *job), suspect.header.state);
            let (doubt, defect) = match is_timed(state) {
                true => (JobCheck::Timer, Inconsistency::NoTimer { id, state }),
                false => (JobCheck::List, Inconsistency::NotListed { id, state }),
            };
            self.check_job(doubt, *job, &suspect.bytes, defect).await?;
        }
        Ok(())
    }
}

const fn is_timed(state: JobState) -> bool {
    matches!(state, JobState::Delayed | JobState::Leased)
}

impl Suspect {
    /// The lists that may name the job: its far hint may move to another slot while lists are read.
    fn lists(&self, slots: SlotWidth) -> Vec<BucketKey> {
        match &self.list {
            BucketKey::Far(_) => {
                let slots = slots.slots_of(self.header.due_at_ms).into_iter();
                slots.map(BucketKey::Far).collect()
            }
            list => vec![list.clone()],
        }
    }

    /// Whether it suffices that this list names the job.
    fn is_named_by(&self, list: &BucketKey) -> bool {
        match (&self.list, list) {
            (BucketKey::Far(last), BucketKey::Far(slot)) => slot <= last,
            (own, list) => own == list,
        }
    }
}

/// The number of the job in this field of a chunk; `None` if the field is not two digits.
pub(super) fn number_of(chunk: u64, field: &[u8]) -> Option<u64> {
    match field {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
            Some(chunk * CHUNK_JOBS + u64::from((tens - b'0') * 10 + (ones - b'0')))
        }
        _ => None,
    }
}
