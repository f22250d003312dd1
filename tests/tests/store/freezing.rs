//! What pumps do for the cold tier, step by step.

use tidegate_cold::{ColdObjects, SegmentBuilder, read_entries};
use tidegate_core::{Partition, SegmentName};
use tidegate_store::{FrozenPayload, Store};

use crate::fixture::TOKEN;

/// Writes the payloads of bucket 0 that may go, each into a segment of its own. Returns what [`put_references`] needs: how
/// far the bucket was looked at, and the references.
pub(crate) async fn write_payloads(
    store: &Store,
    objects: &ColdObjects,
) -> (Vec<(String, String)>, Vec<FrozenPayload>) {
    let warm = store.cold_scan(0, TOKEN, 4).await.unwrap().unwrap();
    let mut frozen = Vec::new();
    for payload in &warm.payloads {
        let mut builder = SegmentBuilder::default();
        assert!(builder.push(payload.id, &payload.payload));
        let partition = Partition::of_due_ms(payload.due_at_ms);
        let segment = builder.finish(partition, rand::random());
        objects.put(&segment).await.unwrap();
        frozen.push(FrozenPayload {
            number: payload.id.number(),
            payload: payload.payload.clone(),
            reference: segment.references[0],
        });
    }
    (warm.looked_at, frozen)
}

/// Returns how many jobs are cold now.
pub(crate) async fn put_references(
    store: &Store,
    looked_at: &[(String, String)],
    frozen: &[FrozenPayload],
) -> u64 {
    let frozen = store.freeze(0, TOKEN, looked_at, frozen).await;
    frozen.unwrap().unwrap().0
}

pub(crate) async fn segments(objects: &ColdObjects) -> Vec<SegmentName> {
    let listed = objects.segments(None).await.unwrap();
    listed.iter().map(|segment| segment.name).collect()
}

/// Puts the payloads of all segments back. Returns how many jobs have got theirs.
pub(crate) async fn thaw_all(store: &Store, objects: &ColdObjects) -> u64 {
    let mut thawed = 0;
    for name in segments(objects).await {
        let bytes = objects.read(name).await.unwrap();
        let entries = read_entries(name, &bytes).map(Result::unwrap);
        let payloads = entries.map(|entry| (entry.id.number(), entry.reference, entry.payload));
        let payloads: Vec<_> = payloads.collect();
        thawed += store.thaw(0, TOKEN, &payloads).await.unwrap().unwrap();
    }
    thawed
}
