//! The records of a bucket, chunk by chunk, and what their jobs seem to lack.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use tidegate_core::codec::{Flags, HEADER_BYTES, Header, decode_parts};
use tidegate_core::keys::BucketKey;
use tidegate_core::{SlotWidth, State};

use super::bucket::BucketAudit;
use super::hints::{CHUNK, Hints};
use super::{Defect, Report};
use crate::StoreError;
use crate::verbs::JobDoubt;

/// How many chunks of up to 8 KiB, more or less, go together.
pub(super) const CHUNKS_PER_CALL: usize = 8;

/// Fields and values of a hash.
pub(super) type Fields = Vec<(Vec<u8>, Bytes)>;

/// A job as its record was.
pub(super) struct Seen {
    pub(super) number: u64,
    pub(super) record: Bytes,
    pub(super) header: Header,
}

/// How many jobs each queue has in each state, and a sum over them that shows any change.
#[derive(Debug, Default, Clone)]
pub(super) struct Tally {
    pub(super) counts: HashMap<u32, [i64; 4]>,
    pub(super) prints: HashMap<u32, u64>,
}

impl Tally {
    pub(super) fn add(&mut self, number: u64, header: &Header) {
        let counts = self.counts.entry(header.queue).or_default();
        counts[header.state as usize - 1] += 1;
        let mut print = DefaultHasher::new();
        (number, header.encode()).hash(&mut print);
        let sum = self.prints.entry(header.queue).or_default();
        *sum = sum.wrapping_add(print.finish());
    }
}

/// A job that no list seemed to name.
pub(super) struct Suspect {
    pub(super) doubt: JobDoubt,
    pub(super) header: Header,
    /// The list that has to name it.
    list: BucketKey,
    bytes: Bytes,
}

/// What was seen of the records.
#[derive(Default)]
pub(super) struct Records {
    pub(super) tally: Tally,
    pub(super) suspects: BTreeMap<u64, Suspect>,
    /// The jobs whose bodies are outside.
    pub(super) outside: BTreeSet<u64>,
    highest: u64,
}

impl Records {
    pub(super) fn jobs(&self) -> u64 {
        let counts = self.tally.counts.values().flatten();
        counts.sum::<i64>().unsigned_abs()
    }

    pub(super) const fn highest(&self) -> u64 {
        self.highest
    }
}

/// The list that has to name a job.
fn list_of(header: &Header, slots: SlotWidth) -> BucketKey {
    match header.state {
        State::Delayed | State::Leased => BucketKey::Far(slots.slot_of(header.due_at_ms)),
        State::Ready => BucketKey::Ready(header.queue),
        State::Dead => BucketKey::Dead(header.queue),
    }
}

impl BucketAudit<'_> {
    /// Reads all records; looks again at once at what one call can tell.
    pub(super) async fn check_records(
        &self,
        hints: &Hints,
        report: &mut Report<'_>,
    ) -> Result<Records, StoreError> {
        let mut records = Records::default();
        for chunks in self.keys().chunks.chunks(CHUNKS_PER_CALL) {
            let mut page = Vec::new();
            for (chunk, fields) in chunks.iter().zip(self.read_chunks(chunks).await?) {
                for (field, record) in fields {
                    page.extend(self.readable(*chunk, &field, record, report).await?);
                }
            }
            for job in &page {
                records.tally.add(job.number, &job.header);
                records.highest = records.highest.max(job.number);
            }
            self.check_payloads(&page, &mut records, report).await?;
            self.check_queues_of(&page, report).await?;
            self.check_hints(&page, hints, &mut records).await?;
            self.check_expiries(&page, report).await?;
        }
        Ok(records)
    }

    /// The fields of some chunks.
    pub(super) async fn read_chunks(&self, chunks: &[u64]) -> Result<Vec<Fields>, StoreError> {
        let mut commands = redis::pipe();
        for chunk in chunks {
            commands
                .cmd("HGETALL")
                .arg(self.name(&BucketKey::Chunk(*chunk)));
        }
        self.commands(&commands).await
    }

    /// The job in a field of a chunk, if it has a header.
    async fn readable(
        &self,
        chunk: u64,
        field: &[u8],
        record: Bytes,
        report: &mut Report<'_>,
    ) -> Result<Option<Seen>, StoreError> {
        let Some(number) = number_of(chunk, field) else {
            let defect = Defect::UnknownField {
                key: self.name(&BucketKey::Chunk(chunk)),
                field: String::from_utf8_lossy(field).into_owned(),
            };
            report.found(Some(self.bucket), defect, false);
            return Ok(None);
        };
        match Header::decode(&record) {
            Ok(header) => Ok(Some(Seen {
                number,
                record,
                header,
            })),
            Err(bad) => {
                self.corrupt(number, &record, bad.to_string(), report)
                    .await?;
                Ok(None)
            }
        }
    }

    async fn corrupt(
        &self,
        job: u64,
        record: &[u8],
        how: String,
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        let defect = Defect::Corrupt { job, how };
        self.look_at_job(JobDoubt::Record, job, head(record), defect, report)
            .await
    }

    /// Whether payloads can be read, those outside of their records too.
    async fn check_payloads(
        &self,
        page: &[Seen],
        records: &mut Records,
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        for job in page {
            let payload = if job.header.flags.has(Flags::BODY_OUTSIDE) {
                records.outside.insert(job.number);
                let mut get = redis::cmd("GET");
                get.arg(self.name(&BucketKey::Body(job.number)));
                let Some(body) = self.command::<Option<Bytes>>(&get).await? else {
                    let defect = Defect::NoBody { job: job.number };
                    let header = head(&job.record);
                    self.look_at_job(JobDoubt::Body, job.number, header, defect, report)
                        .await?;
                    continue;
                };
                body
            } else {
                job.record.slice(HEADER_BYTES..)
            };
            if let Err(bad) = decode_parts(self.bucket, job.number, &job.header, payload) {
                self.corrupt(job.number, &job.record, bad.to_string(), report)
                    .await?;
            }
        }
        Ok(())
    }

    async fn check_queues_of(
        &self,
        page: &[Seen],
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        for job in page {
            let queue = job.header.queue;
            if self.has_queue(queue) {
                continue;
            }
            let defect = Defect::NoQueue {
                job: job.number,
                queue,
            };
            let header = head(&job.record);
            self.look_at_job(JobDoubt::Queue, job.number, header, defect, report)
                .await?;
        }
        Ok(())
    }

    /// Notes whom no list names, and no near timer.
    async fn check_hints(
        &self,
        page: &[Seen],
        hints: &Hints,
        records: &mut Records,
    ) -> Result<(), StoreError> {
        let list_of = |job: &Seen| list_of(&job.header, self.store.inner.slot_width);
        let unnamed = page
            .iter()
            .filter(|job| !hints.has(&list_of(job), job.number));
        let (timed, listed): (Vec<&Seen>, Vec<&Seen>) = unnamed.partition(|job| job.is_timed());
        let mut suspect = |job: &Seen, doubt| {
            let suspect = Suspect {
                doubt,
                header: job.header,
                list: list_of(job),
                bytes: Bytes::copy_from_slice(head(&job.record)),
            };
            records.suspects.insert(job.number, suspect);
        };
        listed
            .into_iter()
            .for_each(|job| suspect(job, JobDoubt::List));
        for jobs in timed.chunks(super::bucket::COMMANDS_PER_CALL) {
            let mut commands = redis::pipe();
            for job in jobs {
                let near = self.name(&BucketKey::Near(job.header.queue));
                commands.cmd("ZSCORE").arg(near).arg(job.number);
            }
            let timers: Vec<Option<f64>> = self.commands(&commands).await?;
            for (job, at_ms) in jobs.iter().zip(timers) {
                if at_ms.is_none_or(|at_ms| at_ms > job.header.due_at_ms as f64) {
                    suspect(job, JobDoubt::Timer);
                }
            }
        }
        Ok(())
    }

    async fn check_expiries(
        &self,
        page: &[Seen],
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        // The first to expire of each chunk stands for all of it.
        let mut first: BTreeMap<u64, &Seen> = BTreeMap::new();
        for job in page.iter().filter(|job| job.header.expires_at_ms > 0) {
            let known = first.entry(job.number / CHUNK).or_insert(job);
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
                let defect = Defect::NotSwept { job: job.number };
                let header = head(&job.record);
                self.look_at_job(JobDoubt::Expiry, job.number, header, defect, report)
                    .await?;
            }
        }
        Ok(())
    }

    /// Walks through the lists again for those whom none seemed to name. Whose record is the same after
    /// that, and was not met, is named by none: a list and the records that it names change together.
    pub(super) async fn check_suspects(
        &self,
        records: &Records,
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        let suspects = &records.suspects;
        if suspects.is_empty() {
            return Ok(());
        }
        let own = suspects.values().map(|suspect| suspect.list.clone());
        let slots = self.keys().others.iter();
        let slots = slots
            .filter(|key| matches!(key, BucketKey::Far(_)))
            .cloned();
        let lists: BTreeSet<BucketKey> = own.chain(slots).collect();
        let mut named = BTreeSet::new();
        for list in lists {
            let mut note = |number: u64| {
                if suspects
                    .get(&number)
                    .is_some_and(|suspect| suspect.is_named_by(&list))
                {
                    named.insert(number);
                }
            };
            self.read_list(&list, &mut note).await?;
        }
        for (job, suspect) in suspects.iter().filter(|(job, _)| !named.contains(job)) {
            let (job, state) = (*job, suspect.header.state);
            let defect = match suspect.doubt {
                JobDoubt::Timer => Defect::NoTimer { job, state },
                _ => Defect::NotListed { job, state },
            };
            self.look_at_job(suspect.doubt, job, &suspect.bytes, defect, report)
                .await?;
        }
        Ok(())
    }
}

impl Seen {
    const fn is_timed(&self) -> bool {
        matches!(self.header.state, State::Delayed | State::Leased)
    }
}

impl Suspect {
    /// Whether being in this list is enough for the job.
    fn is_named_by(&self, list: &BucketKey) -> bool {
        match (&self.list, list) {
            (BucketKey::Far(last), BucketKey::Far(slot)) => slot <= last,
            (own, list) => own == list,
        }
    }
}

/// What tells whether a record has changed: payloads never do.
fn head(record: &[u8]) -> &[u8] {
    record.get(..HEADER_BYTES).unwrap_or(record)
}

/// The number of the job in this field of a chunk: two digits.
pub(super) fn number_of(chunk: u64, field: &[u8]) -> Option<u64> {
    match field {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
            Some(chunk * CHUNK + u64::from((tens - b'0') * 10 + (ones - b'0')))
        }
        _ => None,
    }
}
