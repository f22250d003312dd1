//! Compares the counts of queues with their records.
//!
//! Scripts change counts and records in one step, so the error of a count is constant while daemons run. It can be
//! measured at one time, and corrected at another. A small bucket is read in one step. In a large one, each queue is
//! compared separately, with two walks through all records, between which its counts are read:
//!
//! ```text
//!  counts ── first walk ── counts ── second walk ── counts
//!     └────── arrivals ──────┴──────── arrivals ──────┘      the same in all three
//!                  └────── fingerprints ──────┘              the same in both
//! ```
//!
//! Equal fingerprints do not suffice: a job that is published after the first walk and deleted before the second is in
//! neither, but was counted in between. A job that is reserved and released is counted as leased in between. Both
//! increase `arrivals`. Without arrivals no job is added, and no header returns to an earlier value: attempts only
//! increase, and between two attempts a job goes from leased to dead or ready, or from dead to ready. So all jobs of
//! the second walk existed during the first one, and records that are equal in both were unchanged in between.

use std::collections::{BTreeMap, BTreeSet};

use redis::Pipeline;
use tidegate_core::codec::RecordHeader;
use tidegate_core::keys::BucketKey;
use tidegate_core::layout::{BEFORE_FIRST_NUMBER, CHUNK_JOBS};
use tidegate_core::{GroupHash, JobState};

use super::bucket::{BucketAudit, COMMANDS_PER_CALL};
use super::records::{CHUNKS_PER_CALL, Fields, Records, Tally, number_of};
use crate::error::StoreError;
use crate::verbs::MissingCounts;

/// Maximum number of chunks that are read in one step: about 1 ms.
const SMALL_CHUNKS_MAX: usize = 16;
/// Number of attempts to compare a queue whose jobs change all the time.
const LOOKS: usize = 4;

/// The number of leased jobs of each group of a queue.
type GroupCounts = BTreeMap<GroupHash, i64>;

/// The fields of a queue that an audit compares.
#[derive(Debug, Clone)]
struct QueueCounts {
    counts: [i64; 5],
    running: GroupCounts,
    /// Number of corrections of the counts.
    corrected: u64,
    /// Number of jobs published and deliveries taken back.
    arrivals: i64,
}

impl BucketAudit<'_> {
    /// Compares the counts of all queues. Returns the number of queues that could not be compared. `first_sequence` is
    /// the last job number, read before the keys of the bucket.
    pub(super) async fn check_counts(
        &mut self,
        records: Records,
        first_sequence: u64,
    ) -> Result<u64, StoreError> {
        let keys = self.keys.others.iter();
        let queues = keys.filter_map(|key| match key {
            BucketKey::Queue(queue) => Some(*queue),
            _ => None,
        });
        let queues: BTreeSet<u32> = queues.collect();
        let mut doubtful = BTreeSet::new();
        for (queue, counts) in self.counts(&queues).await? {
            if counts.missing(&records.tally, queue) != MissingCounts::default() {
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
                self.compare_at_once(&chunks, &mut doubtful).await?;
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
                    self.compare(queue, counts, &second.tally).await?;
                }
            }
            last = Some(second);
        }
        Ok(doubtful.len() as u64)
    }

    async fn compare(
        &mut self,
        queue: u32,
        counts: QueueCounts,
        tally: &Tally,
    ) -> Result<(), StoreError> {
        let missing = counts.missing(tally, queue);
        if missing == MissingCounts::default() {
            return Ok(());
        }
        self.correct(queue, counts.corrected, missing).await
    }

    /// The chunks that were found, and chunks that may have been added since.
    async fn chunks_since(&self, first_sequence: u64) -> Result<Vec<u64>, StoreError> {
        let mut chunks = self.keys.chunks.clone();
        let last = self.sequence().await?;
        if last > first_sequence {
            chunks.extend(first_sequence.max(BEFORE_FIRST_NUMBER) / CHUNK_JOBS..=last / CHUNK_JOBS);
            chunks.sort_unstable();
            chunks.dedup();
        }
        Ok(chunks)
    }

    /// Reads records and counts in one step.
    async fn compare_at_once(
        &mut self,
        chunks: &[u64],
        doubtful: &mut BTreeSet<u32>,
    ) -> Result<(), StoreError> {
        let queues: Vec<u32> = doubtful.iter().copied().take(COMMANDS_PER_CALL).collect();
        let mut commands = redis::pipe();
        commands.atomic();
        commands.cmd("GET").arg(self.name(&BucketKey::Sequence));
        for chunk in chunks {
            commands.hgetall(self.name(&BucketKey::Chunk(*chunk)));
        }
        self.ask_counts(&queues, &mut commands);
        let answers: Vec<redis::Value> = self.commands(&commands).await?;
        let mut answers = answers.into_iter();
        let last: Option<u64> = parsed(answers.next())?;
        if last.unwrap_or(0) / CHUNK_JOBS > chunks.last().copied().unwrap_or(0) {
            return Ok(());
        }
        let mut tally = Tally::default();
        for chunk in chunks {
            add(*chunk, parsed(answers.next())?, &mut tally);
        }
        for queue in queues {
            doubtful.remove(&queue);
            let fields = parsed(answers.next())?;
            if let Some(counts) = QueueCounts::read(fields, parsed(answers.next())?) {
                self.compare(queue, counts, &tally).await?;
            }
        }
        Ok(())
    }

    /// Walks through all records. `before` are the counts of these queues before the walk.
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

    /// The counts of these queues. Queues without a name are left out.
    async fn counts(
        &self,
        queues: &BTreeSet<u32>,
    ) -> Result<BTreeMap<u32, QueueCounts>, StoreError> {
        let queues: Vec<u32> = queues.iter().copied().collect();
        let mut all = BTreeMap::new();
        for queues in queues.chunks(COMMANDS_PER_CALL) {
            let mut commands = redis::pipe();
            self.ask_counts(queues, &mut commands);
            let answers: Vec<redis::Value> = self.commands(&commands).await?;
            let mut answers = answers.into_iter();
            for queue in queues {
                let fields = parsed(answers.next())?;
                let counts = QueueCounts::read(fields, parsed(answers.next())?);
                all.extend(counts.map(|counts| (*queue, counts)));
            }
        }
        Ok(all)
    }

    fn ask_counts(&self, queues: &[u32], commands: &mut Pipeline) {
        for queue in queues {
            let of_queue = self.name(&BucketKey::Queue(*queue));
            let states = JobState::ALL.map(JobState::as_str);
            commands.hmget(of_queue, &["name", "corrected", "arrivals"]);
            commands.arg(&states);
            commands.hgetall(self.name(&BucketKey::Running(*queue)));
        }
    }
}

/// A walk through all records, with the counts of queues before and after it.
struct Walk {
    before: BTreeMap<u32, QueueCounts>,
    tally: Tally,
    after: BTreeMap<u32, QueueCounts>,
}

/// The counts of a queue between two walks, if none of its records changed from the first to the second.
fn unchanged(queue: u32, first: &Walk, second: &Walk) -> Option<QueueCounts> {
    let counts = first.after.get(&queue)?;
    let arrivals = [first.before.get(&queue)?, second.after.get(&queue)?];
    let no_arrival = arrivals
        .iter()
        .all(|other| other.arrivals == counts.arrivals);
    let is_same = first.tally.prints.get(&queue) == second.tally.prints.get(&queue);
    (no_arrival && is_same).then(|| counts.clone())
}

impl QueueCounts {
    /// Parses name, corrections, arrivals and counts, and the numbers of leased jobs of groups; `None` for a queue without
    /// a name.
    fn read(fields: Vec<Option<String>>, running: Vec<(String, String)>) -> Option<Self> {
        let mut fields = fields.into_iter();
        fields.next()??;
        let mut number = || fields.next()??.parse::<i64>().ok();
        let corrected = number().unwrap_or(0).unsigned_abs();
        let arrivals = number().unwrap_or(0);
        let counts = std::array::from_fn(|_| number().unwrap_or(0));
        let running = running.into_iter();
        let running = running.filter_map(|(group, leased)| {
            let parsed: GroupHash = group.parse().ok()?;
            // A script takes a damaged count for 0.
            let leased = leased.parse().unwrap_or(0);
            // Scripts spell a group in one way.
            (parsed.to_string() == group).then_some((parsed, leased))
        });
        Some(Self {
            counts,
            running: running.collect(),
            corrected,
            arrivals,
        })
    }

    fn missing(&self, tally: &Tally, queue: u32) -> MissingCounts {
        let real = tally.counts.get(&queue).copied().unwrap_or_default();
        let mut running = tally.running.get(&queue).cloned().unwrap_or_default();
        for (group, leased) in &self.running {
            *running.entry(*group).or_default() -= leased;
        }
        running.retain(|_, missing| *missing != 0);
        MissingCounts {
            jobs: std::array::from_fn(|state| real[state] - self.counts[state]),
            running,
        }
    }
}

fn add(chunk: u64, fields: Fields, tally: &mut Tally) {
    for (field, record) in fields {
        if let (Some(number), Ok(header)) =
            (number_of(chunk, &field), RecordHeader::decode(&record))
        {
            tally.add(number, &header, &record);
        }
    }
}

fn parsed<T: redis::FromRedisValue>(value: Option<redis::Value>) -> Result<T, StoreError> {
    let value = value.unwrap_or(redis::Value::Nil);
    redis::from_redis_value(value).map_err(|error| StoreError::corrupt(error.to_string()))
}
