//! Checks of names, of the indexes `due` and `slots`, and of bodies.

use std::collections::BTreeSet;

use redis::FromRedisValue;
use tidegate_core::FarSlot;
use tidegate_core::KEY_HASH_BYTES;
use tidegate_core::keys::{BucketKey, ReadyLine};

use super::bucket::{BucketAudit, COMMANDS_PER_CALL};
use super::finding::Inconsistency;
use super::hints::number;
use super::records::{Fields, Records};
use crate::error::StoreError;
use crate::verbs::IndexCheck;

/// The field of `queues` with the last queue number.
const LAST_QUEUE: &[u8] = b"#";

/// Whether a field of `queues` is a number of queues: of all that ever had one, or of the queues of a namespace.
fn is_number_of_queues(field: &[u8]) -> bool {
    field == LAST_QUEUE || field.ends_with(b"/")
}

/// An entry of `queues`: a queue with a number in this bucket.
pub(super) struct NamedQueue {
    pub(super) name: Vec<u8>,
    pub(super) queue: u32,
    /// The epoch with which its lane is closed here, if it is.
    pub(super) closed_with: Option<u64>,
    /// The value of the entry.
    pub(super) value: Vec<u8>,
}

impl NamedQueue {
    fn new(name: Vec<u8>, value: Vec<u8>) -> Option<Self> {
        let (closed_with, queue) = match value.strip_prefix(b"closed ") {
            None => (None, number(&value)?),
            Some(closed) => {
                let mut words = closed.split(|byte| *byte == b' ');
                (Some(number(words.next()?)?), number(words.next()?)?)
            }
        };
        let queue = u32::try_from(queue).ok().filter(|queue| *queue > 0)?;
        Some(Self {
            name,
            queue,
            closed_with,
            value,
        })
    }
}

impl BucketAudit<'_> {
    /// Whether the hash of this queue exists.
    pub(super) fn has_queue(&self, queue: u32) -> bool {
        let key = BucketKey::Queue(queue);
        self.keys.others.binary_search(&key).is_ok()
    }

    /// Checks that the hash of each queue in `queues` has its name. Returns the entries.
    pub(super) async fn check_names(&mut self) -> Result<Vec<NamedQueue>, StoreError> {
        let fields: Fields = self.scan("HSCAN", &BucketKey::Queues).await?;
        let queues = fields
            .into_iter()
            .filter(|(name, _)| !is_number_of_queues(name));
        let named: Vec<NamedQueue> = queues
            .filter_map(|(name, value)| NamedQueue::new(name, value.into()))
            .collect();
        for named in named.chunks(COMMANDS_PER_CALL) {
            self.check_named(named).await?;
        }
        Ok(named)
    }

    /// All items of a hash or of a sorted set.
    pub(super) async fn scan<T: FromRedisValue>(
        &self,
        command: &str,
        key: &BucketKey,
    ) -> Result<Vec<T>, StoreError> {
        let mut items = Vec::new();
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd(command);
            scan.arg(self.name(key)).arg(cursor);
            scan.arg("COUNT").arg(COMMANDS_PER_CALL);
            let (next, page): (u64, Vec<T>) = self.command(&scan).await?;
            items.extend(page);
            if next == 0 {
                return Ok(items);
            }
            cursor = next;
        }
    }

    async fn check_named(&mut self, named: &[NamedQueue]) -> Result<(), StoreError> {
        let mut commands = redis::pipe();
        for named in named {
            let of_queue = self.name(&BucketKey::Queue(named.queue));
            commands.cmd("HGET").arg(of_queue).arg("name");
        }
        let known: Vec<Option<Vec<u8>>> = self.commands(&commands).await?;
        for (NamedQueue { name, queue, .. }, known) in named.iter().zip(known) {
            if known.as_ref() == Some(name) {
                continue;
            }
            let name = String::from_utf8_lossy(name).into_owned();
            self.check_index(IndexCheck::Name(name, *queue)).await?;
        }
        Ok(())
    }

    /// Checks bodies, waiting versions and histories that no record refers to.
    pub(super) async fn check_job_keys(&mut self, records: &Records) -> Result<(), StoreError> {
        let is_alone = |key: &BucketKey| match key {
            BucketKey::Body(job) => !records.outside.contains(job),
            BucketKey::Next(job) | BucketKey::NextBody(job) => !records.with_next.contains(job),
            BucketKey::Log(job) => !records.logged.contains(job),
            _ => false,
        };
        let alone: Vec<BucketKey> = self.keys.iter().filter(is_alone).collect();
        for key in alone {
            self.check_index(IndexCheck::JobKey(key)).await?;
        }
        Ok(())
    }

    /// Checks that each entry of the index of keys names a job with that key.
    pub(super) async fn check_key_index(&mut self) -> Result<(), StoreError> {
        let shards = self.keys.others.iter();
        let shards = shards.filter(|key| matches!(key, BucketKey::KeyIndex(_)));
        let shards: Vec<BucketKey> = shards.cloned().collect();
        for shard in shards {
            let entries: Fields = self.scan("HSCAN", &shard).await?;
            for (hash, _) in entries {
                let Ok(hash) = <[u8; KEY_HASH_BYTES]>::try_from(&hash[..]) else {
                    let defect = Inconsistency::UnknownField {
                        key: self.name(&shard),
                        field: String::from_utf8_lossy(&hash).into_owned(),
                    };
                    self.found(defect, false);
                    continue;
                };
                self.check_index(IndexCheck::KeyEntry(hash)).await?;
            }
        }
        Ok(())
    }

    /// Checks that near timers are in `due` and far slots in `slots` in time, and that each slot in `slots` exists.
    pub(super) async fn check_indexes(&mut self) -> Result<(), StoreError> {
        let (mut queues, mut slots) = (Vec::new(), BTreeSet::new());
        for key in &self.keys.others {
            match key {
                BucketKey::Near(queue) => queues.push(*queue),
                BucketKey::Far(slot) => drop(slots.insert(*slot)),
                _ => {}
            }
        }
        for queue in queues {
            self.check_index(IndexCheck::Due(queue)).await?;
        }
        slots.extend(self.indexed_slots().await?);
        for slot in slots {
            self.check_index(IndexCheck::Slot(slot)).await?;
        }
        for line in self.lines().await? {
            self.check_index(IndexCheck::Line(line)).await?;
        }
        Ok(())
    }

    /// The lines that exist, and those that have a turn.
    async fn lines(&self) -> Result<BTreeSet<ReadyLine>, StoreError> {
        let mut lines = BTreeSet::new();
        for key in &self.keys.others {
            match key {
                BucketKey::Line(line) => drop(lines.insert(*line)),
                BucketKey::Turns(queue) => {
                    let turns: Vec<(String, f64)> = self.scan("ZSCAN", key).await?;
                    let named = turns.iter().filter_map(|(line, _)| {
                        // The first line is the empty text.
                        format!("{queue}{line}").parse::<ReadyLine>().ok()
                    });
                    lines.extend(named);
                }
                _ => {}
            }
        }
        Ok(lines)
    }

    /// The far slots that the index names.
    pub(super) async fn indexed_slots(&self) -> Result<Vec<FarSlot>, StoreError> {
        let named: Vec<(Vec<u8>, f64)> = self.scan("ZSCAN", &BucketKey::Slots).await?;
        let slots = named.iter().filter_map(|(slot, _)| far_slot(slot));
        Ok(slots.collect())
    }

    /// Checks queues without an entry in `queues`, and the last queue number.
    pub(super) async fn check_queues(&mut self, named: &[NamedQueue]) -> Result<(), StoreError> {
        let others = self.keys.others.iter();
        let queues: BTreeSet<u32> = others.filter_map(queue_of).collect();
        let named: BTreeSet<u32> = named.iter().map(|named| named.queue).collect();
        for queue in queues.difference(&named) {
            self.check_index(IndexCheck::Unnamed(*queue)).await?;
        }
        match named.last() {
            Some(highest) => self.check_index(IndexCheck::Number(*highest)).await,
            None => Ok(()),
        }
    }
}

/// The slot that an entry of `slots` names.
fn far_slot(name: &[u8]) -> Option<FarSlot> {
    std::str::from_utf8(name).ok()?.parse().ok()
}

/// The queue that a key belongs to.
const fn queue_of(key: &BucketKey) -> Option<u32> {
    match key {
        BucketKey::Queue(queue)
        | BucketKey::Near(queue)
        | BucketKey::Ready(queue)
        | BucketKey::Turns(queue)
        | BucketKey::Running(queue)
        | BucketKey::Dead(queue) => Some(*queue),
        BucketKey::Line(line) => Some(line.queue),
        _ => None,
    }
}
