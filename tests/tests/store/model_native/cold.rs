//! Payloads that go to the cold tier and come back: no other verb shows a difference.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::ColdReference;
use tidegate_store::StoreConfig;
use tidegate_testkit::RedisOptions;

use super::NativeRun;
use crate::fixture::{StoreFixture, connected};
use crate::freezing::{put_references, segments, thaw_all, write_payloads};

/// The payloads in the object store.
pub(super) type FrozenPayloads = HashMap<ColdReference, Bytes>;

/// A store whose pumps freeze the payloads of all jobs that are due later than in a second.
pub(super) async fn cold_fixture(folder: &Path) -> StoreFixture {
    let redis = RedisOptions::new().start();
    let mut config = StoreConfig::new(redis.url());
    config.cold_url = Some(format!("file://{}", folder.display()));
    config.cold_after = Duration::from_secs(1);
    config.cold_payload_bytes_min = 1;
    connected(redis, Vec::new(), config).await
}

pub(super) async fn forget_segments(fixture: &StoreFixture) {
    let objects = fixture.store.cold_objects().unwrap();
    let names = segments(objects).await;
    objects.delete(&names).await.unwrap();
}

impl NativeRun<'_> {
    pub(super) async fn freeze(&mut self, skipped: usize) {
        let (store, objects) = (self.store(), self.fixture.store.cold_objects());
        let objects = objects.expect("the fixture has a cold tier");
        loop {
            let (looked_at, mut frozen) = write_payloads(&store, objects).await;
            frozen.drain(..skipped.min(frozen.len()));
            for payload in &frozen {
                let stored = (payload.reference, payload.payload.clone());
                self.frozen.extend([stored]);
            }
            let jobs = put_references(&store, &looked_at, &frozen).await;
            // A job may have several hints.
            assert!(jobs <= frozen.len() as u64);
            assert_eq!(jobs == 0, frozen.is_empty());
            if looked_at.is_empty() {
                return;
            }
            self.count(if jobs > 0 {
                "freeze: Some"
            } else {
                "freeze: None"
            });
        }
    }

    pub(super) async fn thaw(&mut self) {
        let (store, objects) = (self.store(), self.fixture.store.cold_objects());
        let objects = objects.expect("the fixture has a cold tier");
        let thawed = thaw_all(&store, objects).await;
        self.count(if thawed > 0 {
            "thaw: Some"
        } else {
            "thaw: None"
        });
    }
}
