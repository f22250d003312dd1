//! What the lists of a bucket say: the hints of far timers, of ready and of dead jobs.

use std::collections::HashMap;

use tidegate_core::keys::BucketKey;

use super::bucket::BucketAudit;
use crate::StoreError;

/// Jobs in a chunk.
pub(super) const CHUNK: u64 = 100;
/// How many entries of a list one call reads.
const ENTRIES_PER_CALL: i64 = 1000;

/// A number for each job, in four bytes a job.
#[derive(Debug, Default)]
struct Marks(HashMap<u64, Box<[u32; CHUNK as usize]>>);

impl Marks {
    fn mark(&mut self, number: u64) -> &mut u32 {
        let chunk = self.0.entry(number / CHUNK);
        let chunk = chunk.or_insert_with(|| Box::new([0; CHUNK as usize]));
        &mut chunk[(number % CHUNK) as usize]
    }

    fn get(&self, number: u64) -> Option<u32> {
        let chunk = self.0.get(&(number / CHUNK))?;
        Some(chunk[(number % CHUNK) as usize]).filter(|mark| *mark > 0)
    }
}

/// Which jobs the lists name. Where several lists name a job, one of them is remembered: who relies on another one looks
/// again.
#[derive(Debug, Default)]
pub(super) struct Hints {
    /// The earliest slot, counted from 1.
    far: Marks,
    ready: Marks,
    dead: Marks,
}

impl Hints {
    /// Notes that this list names a job.
    fn add(&mut self, list: &BucketKey, number: u64) {
        match list {
            BucketKey::Far(slot) => {
                let slot = u32::try_from(slot + 1).unwrap_or(u32::MAX);
                let mark = self.far.mark(number);
                if *mark == 0 || slot < *mark {
                    *mark = slot;
                }
            }
            BucketKey::Ready(queue) => *self.ready.mark(number) = *queue,
            BucketKey::Dead(queue) => *self.dead.mark(number) = *queue,
            _ => {}
        }
    }

    /// Whether a list names this job that makes a look at `list` needless.
    pub(super) fn has(&self, list: &BucketKey, number: u64) -> bool {
        match list {
            BucketKey::Far(slot) => {
                let earliest = self.far.get(number);
                earliest.is_some_and(|earliest| u64::from(earliest) <= slot + 1)
            }
            BucketKey::Ready(queue) => self.ready.get(number) == Some(*queue),
            BucketKey::Dead(queue) => self.dead.get(number) == Some(*queue),
            _ => false,
        }
    }
}

impl BucketAudit<'_> {
    /// Reads all lists.
    pub(super) async fn read_hints(&self) -> Result<Hints, StoreError> {
        let mut hints = Hints::default();
        let lists = self.keys().others.iter();
        // Slots come in order: a hint that is put right goes to a later one, or to near.
        for list in lists.filter(|key| is_list(key)) {
            self.read_list(list, &mut |number| hints.add(list, number))
                .await?;
        }
        Ok(hints)
    }

    /// Shows each entry that is in a list from now until the end of the walk. Entries come and go meanwhile, at the head
    /// and at the tail. Places are counted from the tail, and the walk goes towards the head: what
    /// comes at the tail makes it see entries twice, and nothing makes it miss one.
    pub(super) async fn read_list(
        &self,
        list: &BucketKey,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<(), StoreError> {
        let mut seen = 0;
        loop {
            let mut range = redis::cmd("LRANGE");
            range
                .arg(self.name(list))
                .arg(-(seen + ENTRIES_PER_CALL))
                .arg(-(seen + 1));
            let entries: Vec<Vec<u8>> = self.command(&range).await?;
            let read = entries.len();
            for entry in entries {
                // What is no number hints at no job.
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
        BucketKey::Far(_) | BucketKey::Ready(_) | BucketKey::Dead(_)
    )
}

/// The number that is written in these bytes.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_slot_and_the_right_list_count() {
        let mut hints = Hints::default();
        hints.add(&BucketKey::Far(7), 1_000_001);
        hints.add(&BucketKey::Far(9), 1_000_001);
        hints.add(&BucketKey::Ready(3), 1_000_002);
        assert!(
            hints.has(&BucketKey::Far(7), 1_000_001) && hints.has(&BucketKey::Far(8), 1_000_001)
        );
        assert!(
            !hints.has(&BucketKey::Far(6), 1_000_001) && !hints.has(&BucketKey::Far(7), 1_000_002)
        );
        assert!(hints.has(&BucketKey::Ready(3), 1_000_002));
        assert!(
            !hints.has(&BucketKey::Ready(4), 1_000_002)
                && !hints.has(&BucketKey::Dead(3), 1_000_002)
        );
    }
}
