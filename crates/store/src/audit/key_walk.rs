//! The walk through all keys. It uses `SCAN`, since keys that no index refers to cannot be found otherwise.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::Namespace;
use tidegate_core::keys::{self, BucketKey};
use tokio::time::sleep;

use super::finding::Inconsistency;
use super::report::{AuditOptions, AuditReport};
use super::slot_distribution::SlotDistribution;
use crate::error::StoreError;
use crate::store::Store;

/// Number of keys that one call reads.
const KEYS_PER_CALL: u64 = 500;

/// The keys of a bucket.
#[derive(Debug, Default)]
pub(super) struct FoundKeys {
    /// The numbers of its chunks, sorted.
    pub(super) chunks: Vec<u64>,
    /// The job numbers of its bodies, sorted.
    pub(super) bodies: Vec<u64>,
    /// Its other keys, sorted.
    pub(super) others: Vec<BucketKey>,
}

impl FoundKeys {
    fn add(&mut self, key: BucketKey) {
        match key {
            BucketKey::Chunk(chunk) => self.chunks.push(chunk),
            BucketKey::Body(number) => self.bodies.push(number),
            key => self.others.push(key),
        }
    }

    /// Sorts the keys, and removes duplicates: `SCAN` may return a key twice.
    fn in_order(mut self) -> Self {
        self.chunks.sort_unstable();
        self.chunks.dedup();
        self.bodies.sort_unstable();
        self.bodies.dedup();
        self.others.sort_unstable();
        self.others.dedup();
        self
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = BucketKey> + '_ {
        let chunks = self.chunks.iter().copied().map(BucketKey::Chunk);
        let bodies = self.bodies.iter().copied().map(BucketKey::Body);
        chunks.chain(bodies).chain(self.others.iter().cloned())
    }

    pub(super) fn remove(&mut self, key: &BucketKey) {
        match key {
            BucketKey::Chunk(chunk) => self.chunks.retain(|known| known != chunk),
            BucketKey::Body(number) => self.bodies.retain(|known| known != number),
            key => self.others.retain(|known| known != key),
        }
    }
}

/// The keys that the walk has found.
#[derive(Debug, Default)]
pub(super) struct WalkedKeys {
    /// The keys of the audited buckets.
    pub(super) buckets: BTreeMap<u16, FoundKeys>,
    /// The namespaces with schedules; none if only one bucket is audited.
    pub(super) scheduled: BTreeSet<Namespace>,
}

/// Finds the keys of the audited buckets. Keys that are not Tidegate's are reported.
pub(super) async fn walk(
    store: &Store,
    options: &AuditOptions,
    report: &mut AuditReport<'_>,
) -> Result<WalkedKeys, StoreError> {
    let begin = match options.buckets.as_slice() {
        [bucket] => store.keys(*bucket).prefix().to_owned(),
        _ => keys::PREFIX.to_owned(),
    };
    let mut found = WalkedKeys::default();
    let whereabouts = SlotDistribution::read(store).await?;
    for server in whereabouts.servers() {
        let session = server.session(store.inner.config.command_timeout);
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(format!("{begin}*"));
            scan.arg("COUNT").arg(KEYS_PER_CALL);
            let (next, names): (u64, Vec<Vec<u8>>) = session.command(&scan).await?;
            for name in names {
                add(store, options, &name, &mut found, report);
            }
            if next == 0 {
                break;
            }
            cursor = next;
            sleep(options.pause).await;
        }
    }
    whereabouts.expect_same(store).await?;
    let buckets = found.buckets.into_iter();
    found.buckets = buckets
        .map(|(bucket, keys)| (bucket, keys.in_order()))
        .collect();
    Ok(found)
}

fn add(
    store: &Store,
    options: &AuditOptions,
    name: &[u8],
    found: &mut WalkedKeys,
    report: &mut AuditReport<'_>,
) {
    let key = String::from_utf8_lossy(name);
    let is_asked = |bucket: u16| options.buckets.is_empty() || options.buckets.contains(&bucket);
    match store.inner.buckets.split(&key) {
        Some((bucket, _)) if !is_asked(bucket) => {}
        Some((bucket, rest)) => match BucketKey::parse(rest) {
            Some(known) => found.buckets.entry(bucket).or_default().add(known),
            None => unknown(Some(bucket), &key, report),
        },
        None if keys::is_of_deployment(&key) => {
            let scheduled = keys::namespace_of_schedules(&key);
            found
                .scheduled
                .extend(scheduled.and_then(|name| Namespace::try_from(name).ok()));
        }
        None => unknown(None, &key, report),
    }
}

fn unknown(bucket: Option<u16>, key: &str, report: &mut AuditReport<'_>) {
    let key = key.to_owned();
    report.found(bucket, Inconsistency::UnknownKey { key }, false);
}
