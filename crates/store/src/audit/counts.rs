//! Whether queues count right.
//!
//! Verbs change counts and records in one step, so what a count is wrong by stays the same whatever goes on.
//! It is enough to learn it at one moment, and to correct it at another. A small bucket is read in one step.
//! In a large one each queue is compared on its own, between two walks through all records, when its counts are read:
//!
//! ```text
//!  counts ── first walk ── counts ── second walk ── counts
//!     └────── arrivals ──────┴──────── arrivals ──────┘      the same in all three
//!                  └────── fingerprints ──────┘              the same in both
//! ```
//!
//! Equal fingerprints are not enough: a job that is published after the first walk and deleted before the second is in
//! neither, and was counted in between. So is, as ready or as leased, a job that is taken and given back. Both are
//! arrivals. Without one no job comes, and the header of no record becomes again what it was: attempts only grow, and
//! between two attempts a job goes from leased to dead or ready, or from dead to ready. So the jobs of the second walk
//! were there during the first one, and those that were the same in both were so in between.

use std::collections::{BTreeMap, BTreeSet};

use redis::Pipeline;
use tidegate_core::State;
use tidegate_core::codec::Header;
use tidegate_core::keys::BucketKey;

use super::Report;
use super::bucket::{BucketAudit, COMMANDS_PER_CALL};
use super::hints::CHUNK;
use super::records::{CHUNKS_PER_CALL, Fields, Records, Tally, number_of};
use crate::StoreError;

/// Chunks that are read in one step: in about 1 ms.
const SMALL_CHUNKS_MAX: usize = 16;
/// Numbers of jobs are above this.
const BEFORE_FIRST: u64 = 1_000_000;
/// How often queues are compared before they are given up: somebody changes them all the time.
const LOOKS: usize = 4;

/// The fields of a queue that an audit compares.
#[derive(Debug, Clone, Copy)]
struct QueueCounts {
    counts: [i64; 4],
    /// How often the counts were corrected.
    corrected: u64,
    /// Jobs that were published, and deliveries that were taken back.
    arrivals: i64,
}

impl BucketAudit<'_> {
    /// Compares counts, and answers in how many queues they could not be. `first_sequence` is the last job
    /// number before the keys of the bucket were read.
    pub(super) async fn check_counts(
        &self,
        records: Records,
        first_sequence: u64,
        report: &mut Report<'_>,
    ) -> Result<u64, StoreError> {
        let keys = self.keys().others.iter();
        let queues = keys.filter_map(|key| match key {
            BucketKey::Queue(queue) => Some(*queue),
            _ => None,
        });
        let queues: BTreeSet<u32> = queues.collect();
        let mut doubtful = BTreeSet::new();
        for (queue, counts) in self.counts(&queues).await? {
            if counts.missing(&records.tally, queue) != [0; 4] {
                doubtful.insert(queue);
            }
        }
        let mut last: Option<Walk> = None;
        for _ in 0..LOOKS {
            if doubtful.is_empty() {
                break;
            }
            let chunks = self.chunks_since(first_sequence).await?;
            if chunks.len() <= SMALL_CHUNKS_MAX {
                self.compare_at_once(&chunks, &mut doubtful, report).await?;
                continue;
            }
            let first = match last.take() {
                Some(last) => last,
                None => {
                    let counts = self.counts(&doubtful).await?;
                    self.walk(counts, first_sequence, &doubtful).await?
                }
            };
            let second = self
                .walk(first.after.clone(), first_sequence, &doubtful)
                .await?;
            for queue in doubtful.clone() {
                if let Some(counts) = unchanged(queue, &first, &second) {
                    doubtful.remove(&queue);
                    self.compare(queue, counts, &second.tally, report).await?;
                }
            }
            last = Some(second);
        }
        Ok(doubtful.len() as u64)
    }

    async fn compare(
        &self,
        queue: u32,
        counts: QueueCounts,
        tally: &Tally,
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        let missing = counts.missing(tally, queue);
        if missing == [0; 4] {
            return Ok(());
        }
        self.correct(queue, counts.corrected, missing, report).await
    }

    /// The chunks that were found, and those that may have come since.
    async fn chunks_since(&self, first_sequence: u64) -> Result<Vec<u64>, StoreError> {
        let mut chunks = self.keys().chunks.clone();
        let last = self.sequence().await?;
        if last > first_sequence {
            chunks.extend(first_sequence.max(BEFORE_FIRST) / CHUNK..=last / CHUNK);
            chunks.sort_unstable();
            chunks.dedup();
        }
        Ok(chunks)
    }

    /// Reads records and counts in one step.
    async fn compare_at_once(
        &self,
        chunks: &[u64],
        doubtful: &mut BTreeSet<u32>,
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        let queues: Vec<u32> = doubtful.iter().copied().take(COMMANDS_PER_CALL).collect();
        let mut commands = redis::pipe();
        commands.atomic();
        commands.cmd("GET").arg(self.name(&BucketKey::Sequence));
        for chunk in chunks {
            commands
                .cmd("HGETALL")
                .arg(self.name(&BucketKey::Chunk(*chunk)));
        }
        self.ask_counts(&queues, &mut commands);
        let mut answers = self
            .commands::<Vec<redis::Value>>(&commands)
            .await?
            .into_iter();
        let last: Option<u64> = parsed(answers.next())?;
        if last.unwrap_or(0) / CHUNK > chunks.last().copied().unwrap_or(0) {
            return Ok(());
        }
        let mut tally = Tally::default();
        for chunk in chunks {
            add(*chunk, parsed(answers.next())?, &mut tally);
        }
        for queue in queues {
            doubtful.remove(&queue);
            if let Some(counts) = QueueCounts::read(parsed(answers.next())?) {
                self.compare(queue, counts, &tally, report).await?;
            }
        }
        Ok(())
    }

    /// Walks through all records. `before` is what these queues counted before that.
    async fn walk(
        &self,
        before: BTreeMap<u32, QueueCounts>,
        first_sequence: u64,
        queues: &BTreeSet<u32>,
    ) -> Result<Walk, StoreError> {
        let mut tally = Tally::default();
        let chunks = self.chunks_since(first_sequence).await?;
        for chunks in chunks.chunks(CHUNKS_PER_CALL) {
            for (chunk, fields) in chunks.iter().zip(self.read_chunks(chunks).await?) {
                add(*chunk, fields, &mut tally);
            }
        }
        let after = self.counts(queues).await?;
        Ok(Walk {
            before,
            tally,
            after,
        })
    }

    /// What these queues count, all but those that have no name.
    async fn counts(
        &self,
        queues: &BTreeSet<u32>,
    ) -> Result<BTreeMap<u32, QueueCounts>, StoreError> {
        let queues: Vec<u32> = queues.iter().copied().collect();
        let mut all = BTreeMap::new();
        for queues in queues.chunks(COMMANDS_PER_CALL) {
            let mut commands = redis::pipe();
            self.ask_counts(queues, &mut commands);
            let answers: Vec<Vec<Option<String>>> = self.commands(&commands).await?;
            let counts = queues.iter().copied().zip(answers);
            all.extend(
                counts.filter_map(|(queue, fields)| Some((queue, QueueCounts::read(fields)?))),
            );
        }
        Ok(all)
    }

    fn ask_counts(&self, queues: &[u32], commands: &mut Pipeline) {
        for queue in queues {
            let of_queue = self.name(&BucketKey::Queue(*queue));
            let states = State::ALL.map(State::word);
            commands
                .cmd("HMGET")
                .arg(of_queue)
                .arg("name")
                .arg("corrected")
                .arg("arrivals")
                .arg(&states);
        }
    }
}

/// A walk through all records, with what queues counted before and after it.
struct Walk {
    before: BTreeMap<u32, QueueCounts>,
    tally: Tally,
    after: BTreeMap<u32, QueueCounts>,
}

/// What a queue counted between two walks, if none of its records changed from the first to the second.
fn unchanged(queue: u32, first: &Walk, second: &Walk) -> Option<QueueCounts> {
    let counts = first.after.get(&queue)?;
    let arrivals = [first.before.get(&queue)?, second.after.get(&queue)?];
    let no_arrival = arrivals
        .iter()
        .all(|other| other.arrivals == counts.arrivals);
    let is_same = first.tally.prints.get(&queue) == second.tally.prints.get(&queue);
    (no_arrival && is_same).then_some(*counts)
}

impl QueueCounts {
    /// Reads name, corrections, arrivals and counts; `None` for a queue without a name.
    fn read(fields: Vec<Option<String>>) -> Option<Self> {
        let mut fields = fields.into_iter();
        fields.next()??;
        let mut number = || {
            fields
                .next()
                .flatten()
                .and_then(|text| text.parse::<i64>().ok())
        };
        let corrected = number().unwrap_or(0).unsigned_abs();
        let arrivals = number().unwrap_or(0);
        let counts = std::array::from_fn(|_| number().unwrap_or(0));
        Some(Self {
            counts,
            corrected,
            arrivals,
        })
    }

    /// What is to be added to the counts of this queue, by state.
    fn missing(&self, tally: &Tally, queue: u32) -> [i64; 4] {
        let real = tally.counts.get(&queue).copied().unwrap_or_default();
        std::array::from_fn(|state| real[state] - self.counts[state])
    }
}

fn add(chunk: u64, fields: Fields, tally: &mut Tally) {
    for (field, record) in fields {
        if let (Some(number), Ok(header)) = (number_of(chunk, &field), Header::decode(&record)) {
            tally.add(number, &header);
        }
    }
}

fn parsed<T: redis::FromRedisValue>(value: Option<redis::Value>) -> Result<T, StoreError> {
    let value = value.unwrap_or(redis::Value::Nil);
    redis::from_redis_value(value).map_err(|error| StoreError::corrupt(error.to_string()))
}
