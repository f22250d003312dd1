//! What the cold tier of a deployment holds, as the pump that leads bucket 0 has listed it.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::Cmd;
use tidegate_cold::ColdError;
use tidegate_core::Partition;
use tokio::time::timeout;

use crate::error::StoreError;
use crate::store::Store;

/// Time limit of the look at the object store.
const LOOK_MAX: Duration = Duration::from_secs(3);
/// The bucket whose keys have the listing.
const BUCKET: u16 = 0;
/// The fields of the listing, in the order of [`ColdListing`].
const FIELDS: [&str; 5] = [
    "listed_ms",
    "segments",
    "bytes",
    "payloads",
    "thawed_payloads",
];

/// Begins the names of the fields that say since when no job needs a partition; the partition follows.
const SINCE: &str = "since:";

/// The segments of a deployment, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColdListing {
    /// When they were listed, in ms since 1970.
    pub listed_ms: u64,
    pub segments: u64,
    pub bytes: u64,
    /// Payloads in them, also of jobs that are gone, or have theirs back.
    pub payloads: u64,
    /// The payloads of partitions that all buckets have thawed: no job needs them.
    pub thawed_payloads: u64,
}

/// The state of the cold tier of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColdStatus {
    /// The last listing; `None` = there was none yet.
    pub listing: Option<ColdListing>,
    /// The last partition that all buckets have thawed; `None` = some bucket has thawed none.
    pub thawed: Option<Partition>,
    /// Why this process cannot read the object store; `None` = it can.
    pub failure: Option<String>,
}

impl Store {
    /// Notes a listing of the object store.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn note_cold_listing(&self, listing: &ColdListing) -> Result<(), StoreError> {
        let values = [
            listing.listed_ms,
            listing.segments,
            listing.bytes,
            listing.payloads,
            listing.thawed_payloads,
        ];
        let pairs: Vec<_> = FIELDS.into_iter().zip(values).collect();
        let noting = Cmd::hset_multiple(self.keys(BUCKET).cold(), &pairs);
        self.command::<()>(&noting).await
    }

    /// Since when these partitions have been thawed in all buckets, in ms since 1970: those that were not known before, since
    /// `now_ms`. Forgets all others.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn cold_thawed_since(
        &self,
        thawed: &[Partition],
        now_ms: u64,
    ) -> Result<BTreeMap<Partition, u64>, StoreError> {
        let cold = self.keys(BUCKET).cold();
        let fields: Vec<(String, String)> = self.command(&Cmd::hgetall(&cold)).await?;
        let mut since = BTreeMap::new();
        let mut forgotten = Vec::new();
        for (field, value) in fields {
            let Some(partition) = field.strip_prefix(SINCE) else {
                continue;
            };
            match (partition.parse(), value.parse()) {
                // The clock may have been set back.
                (Ok(partition), Ok(at_ms)) if thawed.contains(&partition) && at_ms <= now_ms => {
                    since.insert(partition, at_ms);
                }
                _ => forgotten.push(field),
            }
        }
        let is_new = |partition: &&Partition| !since.contains_key(partition);
        let new: Vec<_> = thawed.iter().filter(is_new).copied().collect();
        if !forgotten.is_empty() {
            self.command::<()>(&Cmd::hdel(&cold, forgotten)).await?;
        }
        if !new.is_empty() {
            let fields: Vec<_> = new
                .iter()
                .map(|partition| (format!("{SINCE}{partition}"), now_ms))
                .collect();
            self.command::<()>(&Cmd::hset_multiple(&cold, &fields))
                .await?;
        }
        since.extend(new.into_iter().map(|partition| (partition, now_ms)));
        Ok(since)
    }

    /// The state of the cold tier; `None` if this process has no cold tier, and no payload of the deployment is there. Takes
    /// up to 3 s if the object store does not answer.
    pub async fn cold_status(&self) -> Option<ColdStatus> {
        match self.read_cold_status().await {
            Ok(status) => status,
            Err(error) => self.cold_objects().map(|_| ColdStatus {
                listing: None,
                thawed: None,
                failure: Some(error.to_string()),
            }),
        }
    }

    async fn read_cold_status(&self) -> Result<Option<ColdStatus>, StoreError> {
        let reading = Cmd::hmget(self.keys(BUCKET).cold(), &FIELDS[..]);
        let read: Vec<Option<u64>> = self.command(&reading).await?;
        let listing = match read[..] {
            [Some(listed_ms), segments, bytes, payloads, thawed_payloads] => Some(ColdListing {
                listed_ms,
                segments: segments.unwrap_or_default(),
                bytes: bytes.unwrap_or_default(),
                payloads: payloads.unwrap_or_default(),
                thawed_payloads: thawed_payloads.unwrap_or_default(),
            }),
            _ => None,
        };
        let Some(objects) = self.cold_objects() else {
            // Payloads may be there that this process cannot read.
            let left = listing.filter(|listing| listing.payloads > listing.thawed_payloads);
            let failure = left.map(|_| "this process has no cold_url".to_owned());
            return Ok(failure.map(|failure| ColdStatus {
                listing,
                thawed: None,
                failure: Some(failure),
            }));
        };
        let look = timeout(LOOK_MAX, objects.check_marker(false)).await;
        let failure = match look.unwrap_or(Err(ColdError::TimedOut(LOOK_MAX))) {
            Ok(()) => None,
            // Without a listing no payload has gone there yet.
            Err(ColdError::NoMarker(_)) if listing.is_none() => None,
            Err(error) => Some(error.to_string()),
        };
        Ok(Some(ColdStatus {
            listing,
            thawed: self.cold_thawed().await?,
            failure,
        }))
    }
}
