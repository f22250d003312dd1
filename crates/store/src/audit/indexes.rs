//! What leads to jobs: names, `due`, the slots, and bodies that nothing leads to.

use std::collections::BTreeSet;

use tidegate_core::keys::BucketKey;

use super::bucket::{BucketAudit, COMMANDS_PER_CALL};
use super::hints::number;
use super::records::{Fields, Records};
use super::{Defect, Report};
use crate::StoreError;
use crate::verbs::IndexDoubt;

/// The field of `queues` with the last queue number.
const LAST_QUEUE: &[u8] = b"#";

/// A queue that has a number in a bucket.
pub(super) struct NamedQueue {
    pub(super) name: Vec<u8>,
    pub(super) queue: u32,
    /// The epoch with which its lane is closed here, if it is.
    pub(super) closed_with: Option<u64>,
    /// What `queues` has for its name.
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
    /// Whether this queue has a hash of its own.
    pub(super) fn has_queue(&self, queue: u32) -> bool {
        let key = BucketKey::Queue(queue);
        self.keys().others.binary_search(&key).is_ok()
    }

    /// Whether each queue that has a name knows it; answers the queues that have names.
    pub(super) async fn check_names(
        &self,
        report: &mut Report<'_>,
    ) -> Result<Vec<NamedQueue>, StoreError> {
        let mut all = Vec::new();
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(self.name(&BucketKey::Queues)).arg(cursor);
            scan.arg("COUNT").arg(COMMANDS_PER_CALL);
            let (next, page): (u64, Fields) = self.command(&scan).await?;
            let fields = page.into_iter().filter(|(name, _)| name != LAST_QUEUE);
            let mut named: Vec<NamedQueue> = fields
                .filter_map(|(name, value)| NamedQueue::new(name, value.into()))
                .collect();
            for named in named.chunks(COMMANDS_PER_CALL) {
                self.check_named(named, report).await?;
            }
            all.append(&mut named);
            if next == 0 {
                return Ok(all);
            }
            cursor = next;
        }
    }

    async fn check_named(
        &self,
        named: &[NamedQueue],
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
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
            let (name, queue) = (String::from_utf8_lossy(name).into_owned(), *queue);
            let doubt = IndexDoubt::Name(name.clone(), queue);
            self.look(doubt, Defect::NameLost { name, queue }, report)
                .await?;
        }
        Ok(())
    }

    /// Bodies that no record asks for.
    pub(super) async fn check_bodies(
        &self,
        records: &Records,
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        let bodies = self.keys().bodies.iter();
        for job in bodies.filter(|job| !records.outside.contains(job)) {
            let doubt = IndexDoubt::Body(*job);
            self.look(doubt, Defect::BodyAlone { job: *job }, report)
                .await?;
        }
        Ok(())
    }

    /// Near timers that `move_due` does not know of, far slots that `load_slot` does not know of, and slots that are
    /// not there.
    pub(super) async fn check_indexes(&self, report: &mut Report<'_>) -> Result<(), StoreError> {
        let mut slots = BTreeSet::new();
        for key in &self.keys().others {
            match key {
                BucketKey::Near(queue) => {
                    let doubt = IndexDoubt::Due(*queue);
                    let defect = Defect::QueueNotDue { queue: *queue };
                    self.look(doubt, defect, report).await?;
                }
                BucketKey::Far(slot) => drop(slots.insert(*slot)),
                _ => {}
            }
        }
        slots.extend(self.named_slots().await?);
        for slot in slots {
            self.look(IndexDoubt::Slot(slot), Defect::BadSlot { slot }, report)
                .await?;
        }
        Ok(())
    }

    /// The slots that the index names.
    async fn named_slots(&self) -> Result<Vec<u64>, StoreError> {
        let mut slots = Vec::new();
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("ZSCAN");
            scan.arg(self.name(&BucketKey::Slots)).arg(cursor);
            scan.arg("COUNT").arg(COMMANDS_PER_CALL);
            let (next, page): (u64, Vec<(Vec<u8>, f64)>) = self.command(&scan).await?;
            slots.extend(page.iter().filter_map(|(slot, _)| number(slot)));
            if next == 0 {
                return Ok(slots);
            }
            cursor = next;
        }
    }

    /// Queues that no name leads to, and those above the last number.
    pub(super) async fn check_queues(
        &self,
        named: &[NamedQueue],
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        let others = self.keys().others.iter();
        let queues: BTreeSet<u32> = others.filter_map(queue_of).collect();
        let named: BTreeSet<u32> = named.iter().map(|named| named.queue).collect();
        for queue in queues.difference(&named) {
            let doubt = IndexDoubt::Unnamed(*queue);
            let defect = Defect::QueueAlone { queue: *queue };
            self.look(doubt, defect, report).await?;
        }
        let Some(highest) = named.last().copied() else {
            return Ok(());
        };
        let doubt = IndexDoubt::Number(highest);
        self.look(doubt, Defect::QueueAhead { queue: highest }, report)
            .await
    }
}

/// The queue that a key belongs to.
const fn queue_of(key: &BucketKey) -> Option<u32> {
    match key {
        BucketKey::Queue(queue)
        | BucketKey::Near(queue)
        | BucketKey::Ready(queue)
        | BucketKey::Dead(queue) => Some(*queue),
        _ => None,
    }
}
