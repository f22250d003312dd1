//! Puts payloads back into Redis before their jobs are due.
//!
//! A partition is *closed* in a bucket before its segments are listed, so that no later freeze adds to it. It is *thawed*
//! once each of them was read twice, in two passes: a failover between the passes may have lost what the first one has
//! written, and then its references are there again.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use tidegate_cold::{ColdError, ColdPayload, StoredSegment, read_entries};
use tidegate_core::{ColdReference, Partition, SegmentName};
use tidegate_store::{COLD_CALL_BYTES, COLD_CALL_JOBS, ColdMark, ColdProgress};
use tokio::time::{Instant, sleep};

use super::{ColdInstance, FAILURE_PAUSE, PassError};

/// The pause after a call to Redis that puts payloads back, in times of the call.
const PAUSES: u32 = 1;
/// How long before its begin a partition is thawed, in ms.
const LEAD_MS: u64 = 5 * 60 * 1000;
/// How often it is checked whether this instance leads other buckets, or a partition is due.
const INTERVAL: Duration = Duration::from_secs(5);
/// The pause between two passes while all payloads come back.
const DRAIN_PAUSE: Duration = Duration::from_secs(10);
/// Marks that are set at the same time.
const MARKS: usize = 16;
/// Segments that are read at the same time, each of up to 32 MiB.
const READS: usize = 4;

#[derive(Default)]
struct Thawer {
    /// How far the buckets are that this instance leads.
    progress: BTreeMap<u16, ColdProgress>,
    /// By bucket the last partition of the last complete pass.
    complete: BTreeMap<u16, Partition>,
    /// The last partition of the last pass, complete or not.
    last: Option<Partition>,
}

/// Thaws partition after partition. Never returns.
pub(super) async fn run(tier: &ColdInstance) -> Infallible {
    let mut thawer = Thawer::default();
    let mut not_before = Instant::now();
    loop {
        sleep(INTERVAL).await;
        if Instant::now() < not_before {
            continue;
        }
        let pause = match thawer.look(tier).await {
            Ok(()) => {
                tier.metrics.thaw.pass_succeeded();
                match tier.instance.store.freezes() {
                    true => Duration::ZERO,
                    false => DRAIN_PAUSE,
                }
            }
            Err(error) => {
                tier.metrics.thaw.pass_failed();
                tracing::error!(pool = tier.pool, %error, "payloads are not back in time: thawing failed; retrying in {FAILURE_PAUSE:?}. Jobs that are due are read from the object store");
                FAILURE_PAUSE
            }
        };
        not_before = Instant::now() + pause;
    }
}

impl Thawer {
    /// Makes a pass if a partition is due, or this instance leads further buckets.
    async fn look(&mut self, tier: &ColdInstance) -> Result<(), PassError> {
        let led = tier.leases.held();
        self.progress.retain(|bucket, _| led.contains(bucket));
        self.complete.retain(|bucket, _| led.contains(bucket));
        let Some(first) = led.first() else {
            return Ok(());
        };
        let is_known = |bucket: &&u16| self.progress.contains_key(bucket);
        let unknown: Vec<u16> = led.iter().filter(|it| !is_known(it)).copied().collect();
        self.mark(tier, &unknown, None).await?;
        // The clock of Redis may have been set.
        self.mark(tier, &[*first], None).await?;
        let Some(now_ms) = self.progress.get(first).map(|progress| progress.now_ms) else {
            return Ok(());
        };
        let freezes = tier.instance.store.freezes();
        let due = match freezes {
            true => Partition::of_due_ms(now_ms + LEAD_MS),
            false => Partition::of_due_ms(u64::MAX),
        };
        if self.last == Some(due) && unknown.is_empty() && freezes {
            return Ok(());
        }
        let is_first_use = self.progress.values().all(|it| it.closed.is_none());
        tier.objects.check_marker(is_first_use).await?;
        let open = self.behind(|progress| progress.closed != Some(due));
        self.mark(tier, &open, Some(ColdMark::Closed(due))).await?;
        self.pass(tier, due, now_ms).await?;
        self.last = Some(due);
        Ok(())
    }

    /// The buckets whose progress is so.
    fn behind(&self, is_behind: impl Fn(&ColdProgress) -> bool) -> Vec<u16> {
        let progress = self.progress.iter();
        let behind = progress.filter(|(_, progress)| is_behind(progress));
        behind.map(|(bucket, _)| *bucket).collect()
    }

    /// Thaws each partition up to `due` that some bucket has not thawed.
    async fn pass(
        &mut self,
        tier: &ColdInstance,
        due: Partition,
        now_ms: u64,
    ) -> Result<(), PassError> {
        let is_overdue = |partition: &Partition| partition.begin_ms() <= now_ms;
        let mut partitions = tier.objects.partitions().await?;
        partitions.retain(|partition| *partition <= due);
        let (mut incomplete_from, mut failure) = (None, None);
        for (place, partition) in partitions.iter().copied().enumerate() {
            let buckets = self.behind(|progress| progress.thawed < Some(partition));
            if buckets.is_empty() {
                continue;
            }
            if self.last != Some(due) {
                let left = partitions.iter().skip(place);
                let left = left.filter(|it| is_overdue(it));
                let left = i64::try_from(left.count()).unwrap_or(i64::MAX);
                tier.metrics.overdue.set(left);
            }
            let mut thaw = PartitionThaw::new(buckets);
            thaw.run(tier, partition).await?;
            for bucket in thaw.lost {
                self.progress.remove(&bucket);
                self.complete.remove(&bucket);
            }
            if !thaw.is_complete {
                incomplete_from = incomplete_from.or(Some(partition));
            }
            failure = failure.or(thaw.failure);
        }
        tier.metrics
            .overdue
            .set(i64::from(incomplete_from.as_ref().is_some_and(is_overdue)));
        let thawed = match incomplete_from {
            None => Some(due),
            Some(partition) => partition.0.checked_sub(1).map(Partition),
        };
        if let Some(thawed) = thawed {
            self.confirm(tier, thawed).await?;
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Marks what was thawed in this pass and in the one before.
    async fn confirm(&mut self, tier: &ColdInstance, thawed: Partition) -> Result<(), PassError> {
        let mut by_mark: BTreeMap<Partition, Vec<u16>> = BTreeMap::new();
        for (bucket, progress) in &self.progress {
            let before = self.complete.insert(*bucket, thawed);
            let Some(twice) = before.map(|before| before.min(thawed)) else {
                continue;
            };
            if progress.thawed < Some(twice) {
                by_mark.entry(twice).or_default().push(*bucket);
            }
        }
        for (partition, buckets) in by_mark {
            let mark = Some(ColdMark::Thawed(partition));
            self.mark(tier, &buckets, mark).await?;
        }
        Ok(())
    }

    /// Sets a mark in these buckets, or reads their marks.
    async fn mark(
        &mut self,
        tier: &ColdInstance,
        buckets: &[u16],
        mark: Option<ColdMark>,
    ) -> Result<(), PassError> {
        let (store, token) = (&tier.instance.store, &tier.instance.token);
        let marking = buckets.iter().map(|bucket| async move {
            let progress = store.cold_mark(*bucket, token, mark).await?;
            Ok::<_, PassError>((*bucket, progress))
        });
        let marked: Vec<_> = futures_util::stream::iter(marking)
            .buffer_unordered(MARKS)
            .try_collect()
            .await?;
        for (bucket, progress) in marked {
            match progress {
                Some(progress) => self.progress.insert(bucket, progress),
                None => self.progress.remove(&bucket),
            };
        }
        Ok(())
    }
}

/// The thawing of one partition.
struct PartitionThaw {
    buckets: BTreeSet<u16>,
    /// Buckets that this instance does not lead any more. Another one thaws them.
    lost: BTreeSet<u16>,
    /// Whether each entry of each segment could be read.
    is_complete: bool,
    /// Why a segment could not be read.
    failure: Option<ColdError>,
}

/// Payloads of one bucket that are put back with one call.
#[derive(Default)]
struct ThawBatch {
    bucket: u16,
    bytes: usize,
    payloads: Vec<(u64, ColdReference, Bytes)>,
}

impl PartitionThaw {
    fn new(buckets: Vec<u16>) -> Self {
        Self {
            buckets: buckets.into_iter().collect(),
            lost: BTreeSet::new(),
            is_complete: true,
            failure: None,
        }
    }

    async fn run(&mut self, tier: &ColdInstance, partition: Partition) -> Result<(), PassError> {
        let segments = tier.objects.segments(Some(partition)).await?.into_iter();
        let reading = segments
            .map(|StoredSegment { name, .. }| async move { (name, tier.objects.read(name).await) });
        let mut read = futures_util::stream::iter(reading).buffered(READS);
        while let Some((name, read)) = read.next().await {
            match read {
                Ok(bytes) => self.thaw_segment(tier, name, &bytes).await?,
                // It was deleted after it was listed: all buckets have thawed it.
                Err(ColdError::Missing(_)) => {}
                Err(error) => {
                    self.is_complete = false;
                    self.failure = Some(error);
                }
            }
        }
        Ok(())
    }

    async fn thaw_segment(
        &mut self,
        tier: &ColdInstance,
        name: SegmentName,
        bytes: &Bytes,
    ) -> Result<(), PassError> {
        let mut batch = ThawBatch::default();
        for entry in read_entries(name, bytes) {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    tier.metrics.damaged.inc();
                    tracing::error!(pool = tier.pool, %error, "a segment of the cold tier is damaged: restore it, or its jobs are not delivered");
                    self.is_complete = false;
                    continue;
                }
            };
            let ColdPayload {
                id,
                reference,
                payload,
            } = entry;
            let bucket = id.bucket();
            if !self.buckets.contains(&bucket) || self.lost.contains(&bucket) {
                continue;
            }
            let is_full = batch.payloads.len() == COLD_CALL_JOBS || batch.bytes > COLD_CALL_BYTES;
            if is_full || bucket != batch.bucket {
                self.thaw(tier, std::mem::take(&mut batch)).await?;
                batch.bucket = bucket;
            }
            batch.bytes += payload.len();
            batch.payloads.push((id.number(), reference, payload));
        }
        self.thaw(tier, batch).await
    }

    async fn thaw(&mut self, tier: &ColdInstance, batch: ThawBatch) -> Result<(), PassError> {
        if batch.payloads.is_empty() {
            return Ok(());
        }
        let (store, token) = (&tier.instance.store, &tier.instance.token);
        let thawing = store.thaw(batch.bucket, token, &batch.payloads);
        match tier.paced(PAUSES, thawing).await? {
            Some(jobs) => tier.metrics.thawed.inc_by(jobs),
            None => {
                self.lost.insert(batch.bucket);
            }
        }
        Ok(())
    }
}
