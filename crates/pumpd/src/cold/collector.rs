//! Deletes segments to which no job refers: their partition was thawed in all buckets, and has been so for `cold_keep`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use tidegate_cold::StoredSegment;
use tidegate_core::{Partition, SegmentName};
use tidegate_store::{ColdListing, ColdProgress};
use tokio::time::sleep;

use super::{ColdInstance, FAILURE_PAUSE, PassError};

/// Longest time between two looks.
const INTERVAL_MAX: Duration = Duration::from_secs(600);
/// The same while all payloads come back, which operators wait for.
const DRAIN_INTERVAL_MAX: Duration = Duration::from_secs(15);
/// The pump that leads this bucket deletes.
const BUCKET: u16 = 0;

/// Deletes what is not needed, look after look. Never returns.
pub(super) async fn run(tier: &ColdInstance) -> Infallible {
    let keep = tier.instance.store.cold_keep();
    loop {
        let pause = match collect(tier, keep).await {
            Ok(()) => {
                tier.metrics.collect.pass_succeeded();
                let interval_max = match tier.instance.store.freezes() {
                    true => INTERVAL_MAX,
                    false => DRAIN_INTERVAL_MAX,
                };
                interval_max.min(keep / 6)
            }
            Err(error) => {
                tier.metrics.collect.pass_failed();
                tracing::warn!(pool = tier.pool, %error, "segments of the cold tier stay that no job needs: retrying in {FAILURE_PAUSE:?}");
                FAILURE_PAUSE
            }
        };
        sleep(pause).await;
    }
}

/// Makes a pass, if this instance leads [`BUCKET`].
async fn collect(tier: &ColdInstance, keep: Duration) -> Result<(), PassError> {
    let (store, token) = (&tier.instance.store, &tier.instance.token);
    let progress = match tier.leases.held().contains(&BUCKET) {
        true => store.cold_mark(BUCKET, token, None).await?,
        false => None,
    };
    let Some(ColdProgress { now_ms, .. }) = progress else {
        tier.metrics.listed(&ColdListing::default());
        return Ok(());
    };
    tier.objects.check_marker(false).await?;
    let segments = tier.objects.segments(None).await?;
    // Read after the list: where all payloads had come back, another pump may freeze again, and what it writes is not listed.
    let thawed = store.cold_thawed().await?;
    let mut not_needed: BTreeMap<Partition, Vec<SegmentName>> = BTreeMap::new();
    for StoredSegment { name, .. } in &segments {
        if Some(name.partition) <= thawed {
            not_needed.entry(name.partition).or_default().push(*name);
        }
    }
    let partitions: Vec<Partition> = not_needed.keys().copied().collect();
    let since = store.cold_thawed_since(&partitions, now_ms).await?;
    let is_kept = |partition: &Partition| {
        let since_ms = since.get(partition).copied().unwrap_or(now_ms);
        Duration::from_millis(now_ms.saturating_sub(since_ms)) < keep
    };
    not_needed.retain(|partition, _| !is_kept(partition));
    for (partition, names) in &not_needed {
        tier.objects.delete(names).await?;
        tracing::info!(pool = tier.pool, %partition, segments = names.len(), "deleted segments of the cold tier that no job needs");
    }
    let left = segments.iter();
    let left = left.filter(|segment| !not_needed.contains_key(&segment.name.partition));
    let listing = listing(left, thawed, now_ms);
    tier.metrics.listed(&listing);
    Ok(store.note_cold_listing(&listing).await?)
}

fn listing<'a>(
    segments: impl Iterator<Item = &'a StoredSegment>,
    thawed: Option<Partition>,
    listed_ms: u64,
) -> ColdListing {
    let mut listing = ColdListing {
        listed_ms,
        ..ColdListing::default()
    };
    for segment in segments {
        let payloads = u64::from(segment.name.entries);
        listing.segments += 1;
        listing.bytes += segment.bytes;
        listing.payloads += payloads;
        if Some(segment.name.partition) <= thawed {
            listing.thawed_payloads += payloads;
        }
    }
    listing
}
