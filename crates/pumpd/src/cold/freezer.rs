//! Moves payloads to the object store.
//!
//! A round looks once at each bucket, writes a segment for each partition of the payloads that it has found, and then
//! puts the references into the records. If it ends early, nothing refers to the segments that it has written, and the
//! next round finds the same jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use futures_util::StreamExt;
use tidegate_cold::{ColdError, Segment, SegmentBuilder};
use tidegate_core::{FAR_LEVELS, Partition};
use tidegate_store::{COLD_CALL_BYTES, COLD_CALL_JOBS, FrozenPayload, WarmPayload};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::{ColdInstance, FAILURE_PAUSE, PassError};

/// Payloads that one round holds in memory, in bytes; the last bucket may add a little.
const ROUND_BYTES: usize = 64 << 20;
/// A segment of more bytes gets no further payload.
const SEGMENT_BYTES: usize = 32 << 20;
/// The pause after a call to Redis, in times of the call. Payloads that go have time.
const PAUSES: u32 = 4;
/// Segments that are written at the same time.
const UPLOADS: usize = 8;

/// The payloads of one round.
#[derive(Default)]
struct Round {
    /// By bucket how far it was looked at.
    looked_at: BTreeMap<u16, Vec<(String, String)>>,
    by_partition: BTreeMap<Partition, Vec<WarmPayload>>,
}

/// Freezes what is far ahead, pass after pass. Never returns.
pub(super) async fn run(tier: &ColdInstance) -> Infallible {
    let store = &tier.instance.store;
    if !store.freezes() {
        return std::future::pending().await;
    }
    let (mut passes, mut known) = (1_u32, BTreeSet::new());
    loop {
        let pause = match pass(tier, level_of(passes), &mut known).await {
            Ok(()) => {
                passes = passes.wrapping_add(1);
                tier.metrics.freeze.pass_succeeded();
                store.cold_interval()
            }
            Err(error) => {
                tier.metrics.freeze.pass_failed();
                tracing::warn!(pool = tier.pool, %error, "payloads stay in redis: freezing failed; retrying in {FAILURE_PAUSE:?}");
                FAILURE_PAUSE
            }
        };
        sleep(pause).await;
    }
}

/// The highest level of far slots at which a pass looks. Level 2 has jobs that are due in hours, and each 4th pass looks at
/// it; level 3 has days, and each 16th pass; level 4 has months, and each 64th pass. So more jobs wait for the same pass,
/// and the segments of a steady stream of jobs are not tiny. In a bucket that this instance has just begun to lead, a pass
/// looks at all levels.
fn level_of(pass: u32) -> u8 {
    let level = 1 + pass.trailing_zeros() / 2;
    level.min(u32::from(FAR_LEVELS)) as u8
}

/// Freezes until nothing is left to look at. `known` has the buckets in which an earlier pass has looked at all levels.
async fn pass(tier: &ColdInstance, level: u8, known: &mut BTreeSet<u16>) -> Result<(), PassError> {
    tier.objects.check_marker(false).await?;
    let held = tier.leases.held();
    known.retain(|bucket| held.contains(bucket));
    let mut open = BTreeSet::new();
    let mut buckets: Vec<u16> = held.into_iter().collect();
    while !buckets.is_empty() {
        let mut round = Round::default();
        let mut bytes = 0;
        let mut later = Vec::new();
        for bucket in buckets {
            if bytes > ROUND_BYTES {
                later.push(bucket);
                continue;
            }
            let level = if known.contains(&bucket) {
                level
            } else {
                FAR_LEVELS
            };
            let Some(look) = look(tier, bucket, level, &mut round).await? else {
                continue;
            };
            open.insert(bucket);
            bytes += look;
        }
        buckets = round.looked_at.keys().copied().chain(later).collect();
        freeze(tier, round).await?;
    }
    known.extend(open);
    Ok(())
}

/// Adds what a bucket has to a round. Returns the bytes of its payloads; `None` = nothing may be frozen there now.
async fn look(
    tier: &ColdInstance,
    bucket: u16,
    level: u8,
    round: &mut Round,
) -> Result<Option<usize>, PassError> {
    let token = &tier.instance.token;
    let looking = tier.instance.store.cold_scan(bucket, token, level);
    let Some(warm) = tier.paced(PAUSES, looking).await? else {
        return Ok(None);
    };
    if warm.is_closed {
        return Ok(None);
    }
    if !warm.looked_at.is_empty() {
        round.looked_at.insert(bucket, warm.looked_at);
    }
    let mut bytes = 0;
    for payload in warm.payloads {
        bytes += payload.payload.len();
        let partition = Partition::of_due_ms(payload.due_at_ms);
        round
            .by_partition
            .entry(partition)
            .or_default()
            .push(payload);
    }
    Ok(Some(bytes))
}

/// Freezes what could be written. The buckets of other payloads are looked at again.
async fn freeze(tier: &ColdInstance, round: Round) -> Result<(), PassError> {
    let Round {
        mut looked_at,
        by_partition,
    } = round;
    let writing = by_partition.into_iter().flat_map(|(partition, payloads)| {
        let segments = split(payloads).into_iter();
        segments.map(move |payloads| write(tier, partition, payloads))
    });
    let mut written = futures_util::stream::iter(writing).buffer_unordered(UPLOADS);
    let mut by_bucket: BTreeMap<u16, Vec<FrozenPayload>> = BTreeMap::new();
    let mut failure = None;
    while let Some(written) = written.next().await {
        match written {
            Ok(payloads) => {
                for (bucket, payload) in payloads {
                    by_bucket.entry(bucket).or_default().push(payload);
                }
            }
            Err((buckets, error)) => {
                failure = Some(error);
                for bucket in buckets {
                    looked_at.insert(bucket, Vec::new());
                }
            }
        }
    }
    for (bucket, looked_at) in looked_at {
        let payloads = by_bucket.remove(&bucket).unwrap_or_default();
        freeze_bucket(tier, bucket, &looked_at, &payloads).await?;
    }
    failure.map_or(Ok(()), |error| Err(error.into()))
}

/// Divides the payloads of one partition among segments. Each has at most one payload more than [`SEGMENT_BYTES`].
fn split(payloads: Vec<WarmPayload>) -> Vec<Vec<WarmPayload>> {
    let mut segments = vec![Vec::new()];
    let mut bytes = 0;
    for payload in payloads {
        if bytes > SEGMENT_BYTES {
            segments.push(Vec::new());
            bytes = 0;
        }
        bytes += payload.payload.len();
        if let Some(last) = segments.last_mut() {
            last.push(payload);
        }
    }
    segments
}

/// References to payloads, with the buckets of their jobs.
type References = Vec<(u16, FrozenPayload)>;

/// Writes payloads of one partition, and returns the references to them; or the buckets of which a payload could not be
/// written.
async fn write(
    tier: &ColdInstance,
    partition: Partition,
    payloads: Vec<WarmPayload>,
) -> Result<References, (BTreeSet<u16>, ColdError)> {
    let buckets = payloads.iter().map(|payload| payload.id.bucket()).collect();
    // Checksums of tens of MiB take too long for a thread that also holds leases.
    let building = spawn_blocking(move || build(partition, payloads)).await;
    let (segment, references) = match building {
        Ok(built) => built,
        Err(error) => return Err((buckets, ColdError::Unavailable(error.to_string()))),
    };
    if references.is_empty() {
        return Ok(references);
    }
    match tier.objects.put(&segment).await {
        Ok(()) => Ok(references),
        Err(error) => Err((buckets, error)),
    }
}

/// A segment with these payloads, except those that are too long.
fn build(partition: Partition, payloads: Vec<WarmPayload>) -> (Segment, References) {
    let mut builder = SegmentBuilder::default();
    let mut built = Vec::with_capacity(payloads.len());
    for payload in payloads {
        if builder.push(payload.id, &payload.payload) {
            built.push(payload);
        }
    }
    let segment = builder.finish(partition, rand::random());
    let references = built.into_iter().zip(&segment.references);
    let references = references.map(|(warm, reference)| {
        let frozen = FrozenPayload {
            number: warm.id.number(),
            payload: warm.payload,
            reference: *reference,
        };
        (warm.id.bucket(), frozen)
    });
    let references = references.collect();
    (segment, references)
}

/// Notes how far the bucket was looked at with the last call: a call that fails leaves the jobs to the next round.
async fn freeze_bucket(
    tier: &ColdInstance,
    bucket: u16,
    looked_at: &[(String, String)],
    payloads: &[FrozenPayload],
) -> Result<(), PassError> {
    let mut left = payloads;
    loop {
        let (chunk, rest) = left.split_at(jobs_of_call(left));
        left = rest;
        let is_last = left.is_empty();
        let looked_at = if is_last { looked_at } else { &[] };
        let store = &tier.instance.store;
        let frozen = store.freeze(bucket, &tier.instance.token, looked_at, chunk);
        let Some((jobs, bytes)) = tier.paced(PAUSES, frozen).await? else {
            return Ok(());
        };
        tier.metrics.frozen.inc_by(jobs);
        tier.metrics.frozen_bytes.inc_by(bytes);
        if is_last {
            return Ok(());
        }
    }
}

/// How many of these payloads one call takes.
fn jobs_of_call(payloads: &[FrozenPayload]) -> usize {
    let mut bytes = 0;
    let has_room = |payload: &&FrozenPayload| {
        let is_room = bytes < COLD_CALL_BYTES;
        bytes += payload.payload.len();
        is_room
    };
    payloads
        .iter()
        .take(COLD_CALL_JOBS)
        .take_while(has_room)
        .count()
}

#[cfg(test)]
mod tests {
    use super::level_of;

    #[test]
    fn far_levels_are_looked_at_less_often() {
        let levels: Vec<u8> = (0..=16).map(level_of).collect();
        assert_eq!(levels, [4, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 3]);
        assert_eq!(level_of(64), 4);
        assert_eq!(level_of(1024), 4);
    }
}
