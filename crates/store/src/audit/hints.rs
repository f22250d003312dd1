//! The hints in the lists of a bucket: far timers, ready and dead jobs.

use std::collections::HashMap;

use tidegate_core::keys::{BucketKey, ReadyLine};
use tidegate_core::layout::CHUNK_JOBS;

use super::bucket::BucketAudit;
use crate::error::StoreError;

/// Number of list entries that one call reads.
const ENTRIES_PER_CALL: isize = 1000;

/// A number for each job, in four bytes per job.
#[derive(Debug, Default)]
struct Marks(HashMap<u64, Box<[u32; CHUNK_JOBS as usize]>>);

impl Marks {
    fn mark(&mut self, number: u64) -> &mut u32 {
        let chunk = self.0.entry(number / CHUNK_JOBS);
        let chunk = chunk.or_insert_with(|| Box::new([0; CHUNK_JOBS as usize]));
        &mut chunk[(number % CHUNK_JOBS) as usize]
    }

    fn get(&self, number: u64) -> Option<u32> {
        let chunk = self.0.get(&(number / CHUNK_JOBS))?;
        Some(chunk[(number % CHUNK_JOBS) as usize]).filter(|mark| *mark > 0)
    }
}

/// The jobs that the lists name. If several lists of a kind name a job, only one of them is stored; a job that needs
/// another one is checked again.
#[derive(Debug, Default)]
pub(super) struct Hints {
    /// The begin of the earliest slot, in slots of the first level, plus 1.
    far: Marks,
    ready: Marks,
    /// By job: few jobs have a priority.
    lines: HashMap<u64, ReadyLine>,
    dead: Marks,
}

impl Hints {
    /// Records that this list names a job.
    fn add(&mut self, list: &BucketKey, number: u64) {
        match list {
            BucketKey::Far(slot) => {
                let slot = u32::try_from(slot.begin() + 1).unwrap_or(u32::MAX);
                let mark = self.far.mark(number);
                if *mark == 0 || slot < *mark {
                    *mark = slot;
                }
            }
            BucketKey::Ready(queue) => *self.ready.mark(number) = *queue,
            BucketKey::Line(line) => drop(self.lines.insert(number, *line)),
            BucketKey::Dead(queue) => *self.dead.mark(number) = *queue,
            _ => {}
        }
    }

    /// Whether the job is named by `list`, or by an equivalent one: a slot that begins not later.
    pub(super) fn has(&self, list: &BucketKey, number: u64) -> bool {
        match list {
            BucketKey::Far(slot) => {
                let earliest = self.far.get(number);
                earliest.is_some_and(|earliest| u64::from(earliest) <= slot.begin() + 1)
            }
            BucketKey::Ready(queue) => self.ready.get(number) == Some(*queue),
            BucketKey::Line(line) => self.lines.get(&number) == Some(line),
            BucketKey::Dead(queue) => self.dead.get(number) == Some(*queue),
            _ => false,
        }
    }
}

impl BucketAudit<'_> {
    /// Reads all lists.
    pub(super) async fn read_hints(&self) -> Result<Hints, StoreError> {
        let mut hints = Hints::default();
        let lists = self.keys.others.iter();
        // Slots are read in order: a hint that moves goes to a later slot, or to near.
        for list in lists.filter(|key| is_list(key)) {
            self.read_list(list, &mut |number| hints.add(list, number))
                .await?;
        }
        Ok(hints)
    }

    /// Calls `each` for every entry that is in the list during the whole walk. Entries may be added and removed at head
    /// and tail at the same time. The walk goes from the tail to the head, with positions counted from the tail: an
    /// entry that is added at the tail makes it read entries twice, and none is missed.
    pub(super) async fn read_list(
        &self,
        list: &BucketKey,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<(), StoreError> {
        let mut seen = 0;
        loop {
            let (first, last) = (-(seen + ENTRIES_PER_CALL), -(seen + 1));
            let range = redis::Cmd::lrange(self.name(list), first, last);
            let entries: Vec<Vec<u8>> = self.command(&range).await?;
            let read = entries.len();
            for entry in entries {
                // An entry that is not a number is not a hint.
                if let Some(number) = number(&entry) {
                    each(number);
                }
            }
            seen += ENTRIES_PER_CALL;
            if read < ENTRIES_PER_CALL as usize {
                return Ok(());
            }
        }
    }
}

fn is_list(key: &BucketKey) -> bool {
    matches!(
        key,
        BucketKey::Far(_) | BucketKey::Ready(_) | BucketKey::Line(_) | BucketKey::Dead(_)
    )
}

/// Parses a decimal number.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use tidegate_core::FarSlot;

    use super::*;

    #[test]
    fn the_earliest_slot_and_the_right_list_count() {
        let mut hints = Hints::default();
        let far = |level, number| BucketKey::Far(FarSlot { level, number });
        hints.add(&far(1, 7), 1_000_001);
        hints.add(&far(1, 9), 1_000_001);
        hints.add(&far(2, 3), 1_000_003);
        hints.add(&BucketKey::Ready(3), 1_000_002);
        assert!(hints.has(&far(1, 7), 1_000_001) && hints.has(&far(1, 8), 1_000_001));
        assert!(!hints.has(&far(1, 6), 1_000_001) && !hints.has(&far(1, 7), 1_000_002));
        assert!(hints.has(&far(1, 192), 1_000_003) && !hints.has(&far(1, 191), 1_000_003));
        assert!(hints.has(&BucketKey::Ready(3), 1_000_002));
        assert!(
            !hints.has(&BucketKey::Ready(4), 1_000_002)
                && !hints.has(&BucketKey::Dead(3), 1_000_002)
        );
    }
}
