//! Payloads go to the cold tier and come back, while their jobs are replaced, cancelled, promoted or due.

use std::path::Path;

use tempfile::TempDir;
use tidegate_cold::ColdObjects;
use tidegate_core::{IfExists, JobId, JobState, Partition, SegmentName};
use tidegate_store::{
    ColdMark, FrozenPayload, Inconsistency, JobReference, JobSelection, StoreConfig, StoreError,
};
use tidegate_testkit::{RedisOptions, RedisServer, consistency};

use crate::audit::audit;
use crate::fixture::{START, StoreFixture, TOKEN, connected, delayed};
use crate::freezing::{put_references, segments, thaw_all, write_payloads};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// Bytes of a payload that fits into a record, and of a payload that does not.
const SIZES: [usize; 2] = [200, 5000];

/// A store with the cold tier in a folder.
struct ColdFixture {
    f: StoreFixture,
    folder: TempDir,
}

impl std::ops::Deref for ColdFixture {
    type Target = StoreFixture;

    fn deref(&self) -> &StoreFixture {
        &self.f
    }
}

fn config(redis: &RedisServer, folder: &Path) -> StoreConfig {
    let mut config = StoreConfig::new(redis.url());
    config.cold_url = Some(format!("file://{}", folder.display()));
    config
}

impl ColdFixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let redis = RedisOptions::new().start();
        let config = config(&redis, folder.path());
        let f = connected(redis, Vec::new(), config).await;
        Self { f, folder }
    }

    fn objects(&self) -> &ColdObjects {
        self.store.cold_objects().unwrap()
    }

    async fn write(&self, now_ms: u64) -> (Vec<(String, String)>, Vec<FrozenPayload>) {
        write_payloads(&self.store.at(now_ms), self.objects()).await
    }

    async fn freeze(&self, now_ms: u64) -> u64 {
        let (looked_at, frozen) = self.write(now_ms).await;
        self.put_references(now_ms, &looked_at, &frozen).await
    }

    async fn put_references(
        &self,
        now_ms: u64,
        looked_at: &[(String, String)],
        frozen: &[FrozenPayload],
    ) -> u64 {
        put_references(&self.store.at(now_ms), looked_at, frozen).await
    }

    async fn segments(&self) -> Vec<SegmentName> {
        segments(self.objects()).await
    }

    async fn thaw(&self, now_ms: u64) -> u64 {
        thaw_all(&self.store.at(now_ms), self.objects()).await
    }

    async fn delete_segments(&self) {
        let names = self.segments().await;
        self.objects().delete(&names).await.unwrap();
    }

    async fn body(&self, id: JobId) -> Result<String, StoreError> {
        let peeked = self
            .store
            .peek_job(&self.queue, JobReference::Id(id))
            .await?;
        let job = peeked.unwrap().job;
        Ok(String::from_utf8(job.body.to_vec()).unwrap())
    }
}

/// A text that cannot be compressed to a small one.
fn body(bytes: usize, letter: &str) -> String {
    let mut number = u64::from(letter.as_bytes()[0]);
    let digits = std::iter::repeat_with(|| {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        format!("{:08x}", number >> 32)
    });
    let text: String = digits.take(bytes / 8).collect();
    letter.repeat(bytes % 8) + &text
}

/// A look meets a job once for each of its hints.
#[tokio::test]
async fn a_payload_that_is_there_twice_is_frozen_once() {
    for bytes in SIZES {
        let f = ColdFixture::new().await;
        f.publish(START, delayed(&body(bytes, "a"), DAY_MS)).await;
        let (looked_at, frozen) = f.write(START).await;
        let twice = [frozen.clone(), frozen].concat();
        assert_eq!(f.put_references(START, &looked_at, &twice).await, 1);
        f.move_due(START + DAY_MS).await;
        f.expect(START + DAY_MS, &[&body(bytes, "a")]).await;
    }
}

#[tokio::test]
async fn a_cold_job_is_read_through_and_delivered() {
    for bytes in SIZES {
        let f = ColdFixture::new().await;
        let id = f.publish(START, delayed(&body(bytes, "a"), DAY_MS)).await;
        assert_eq!(f.freeze(START).await, 1, "{bytes}");
        assert_eq!(f.body(id).await.unwrap(), body(bytes, "a"));
        consistency::check(&f.redis.url()).await;
        let (summary, mut found) = audit(&f, false).await;
        // The test itself has the lock.
        found.retain(|it| !matches!(it.defect, Inconsistency::OrphanedLock { .. }));
        assert!(found.is_empty(), "{found:?}");
        assert_eq!(summary.jobs, 1);
        f.move_due(START + DAY_MS).await;
        f.expect(START + DAY_MS, &[&body(bytes, "a")]).await;
        let _ = f.store.ack(&f.queue, id, None).await.unwrap();
        assert_eq!(f.keys_of_jobs(), ["tg:0:{8209}:cold_walk"]);
    }
}

#[tokio::test]
async fn a_thawed_job_needs_no_object_any_more() {
    for bytes in SIZES {
        let f = ColdFixture::new().await;
        let id = f.publish(START, delayed(&body(bytes, "a"), DAY_MS)).await;
        let mut before = f.keys_of_jobs();
        // A payload that may go is outside of its record. A small one comes back into it.
        assert!(
            before.iter().any(|key| key.contains(":body:")),
            "{before:?}"
        );
        before.retain(|key| bytes > 1024 || !key.contains(":body:"));
        assert_eq!(f.freeze(START).await, 1, "{bytes}");
        assert_eq!(f.thaw(START).await, 1, "{bytes}");
        assert_eq!(f.thaw(START).await, 0, "{bytes}");
        f.delete_segments().await;
        let mut after = f.keys_of_jobs();
        after.retain(|key| !key.ends_with("cold_walk"));
        assert_eq!(after, before, "{bytes}");
        assert_eq!(f.body(id).await.unwrap(), body(bytes, "a"));
        f.move_due(START + DAY_MS).await;
        f.expect(START + DAY_MS, &[&body(bytes, "a")]).await;
    }
}

#[tokio::test]
async fn only_payloads_that_are_large_and_far_go() {
    let f = ColdFixture::new().await;
    f.publish(START, delayed(&body(200, "a"), HOUR_MS - 1))
        .await;
    f.publish(START, delayed(&body(20, "b"), DAY_MS)).await;
    let far = f.publish(START, delayed(&body(200, "c"), HOUR_MS)).await;
    let (looked_at, frozen) = f.write(START).await;
    assert_eq!(frozen.len(), 1);
    assert_eq!(frozen[0].number, far.number());
    assert_eq!(f.put_references(START, &looked_at, &frozen).await, 1);
    // What has been looked at is not looked at again; what comes later is.
    let again = f
        .store
        .at(START)
        .cold_scan(0, TOKEN, 4)
        .await
        .unwrap()
        .unwrap();
    assert!(
        again.looked_at.is_empty() && again.payloads.is_empty(),
        "{again:?}"
    );
    f.publish(START, delayed(&body(200, "d"), HOUR_MS)).await;
    assert_eq!(f.freeze(START).await, 1);
}

/// A look whose references were not written finds the same jobs again.
#[tokio::test]
async fn a_look_that_was_interrupted_is_repeated() {
    let f = ColdFixture::new().await;
    f.publish(START, delayed(&body(200, "a"), DAY_MS)).await;
    let (_, first) = f.write(START).await;
    assert_eq!(first.len(), 1);
    f.delete_segments().await;
    assert_eq!(f.freeze(START).await, 1);
}

#[tokio::test]
async fn a_job_that_changed_after_the_look_keeps_its_payload() {
    for bytes in SIZES {
        let f = ColdFixture::new().await;
        let key = |letter: &str| f.keyed("k", IfExists::Replace, &body(bytes, letter), DAY_MS);
        let id = f.publish_keyed(START, key("a")).await.id;
        let gone = f.publish(START, delayed(&body(bytes, "b"), DAY_MS)).await;
        let ready = f.publish(START, delayed(&body(bytes, "c"), DAY_MS)).await;
        let (looked_at, frozen) = f.write(START).await;
        assert_eq!(frozen.len(), 3);
        // It has the same number, and the same nonce.
        assert_eq!(f.publish_keyed(START, key("d")).await.id, id);
        let store = f.store.at(START);
        let _ = store.ack(&f.queue, gone, None).await.unwrap();
        let ready = JobReference::Id(ready);
        let _ = store.promote(&f.queue, ready).await.unwrap();
        assert_eq!(f.put_references(START, &looked_at, &frozen).await, 0);
        f.delete_segments().await;
        assert_eq!(f.body(id).await.unwrap(), body(bytes, "d"));
        f.expect(START, &[&body(bytes, "c")]).await;
    }
}

#[tokio::test]
async fn a_job_that_changed_while_it_was_cold_does_not_get_the_old_payload() {
    for bytes in SIZES {
        let f = ColdFixture::new().await;
        let key = |letter: &str| f.keyed("k", IfExists::Replace, &body(bytes, letter), DAY_MS);
        let id = f.publish_keyed(START, key("a")).await.id;
        let gone = f.publish(START, delayed(&body(bytes, "b"), DAY_MS)).await;
        assert_eq!(f.freeze(START).await, 2);
        assert_eq!(f.publish_keyed(START, key("d")).await.id, id);
        let _ = f.store.ack(&f.queue, gone, None).await.unwrap();
        assert_eq!(f.thaw(START).await, 0);
        f.delete_segments().await;
        assert_eq!(f.body(id).await.unwrap(), body(bytes, "d"));
        consistency::check(&f.redis.url()).await;
    }
}

#[tokio::test]
async fn no_payload_goes_into_a_closed_partition() {
    let f = ColdFixture::new().await;
    let at_ms = START + DAY_MS;
    let id = f.publish(START, delayed(&body(200, "a"), DAY_MS)).await;
    let (looked_at, frozen) = f.write(START).await;
    let due = Partition::of_due_ms(at_ms);
    let store = f.store.at(START);
    let marked = store.cold_mark(0, TOKEN, Some(ColdMark::Closed(due))).await;
    let marked = marked.unwrap().unwrap();
    assert_eq!((marked.closed, marked.thawed), (Some(due), None));
    assert_eq!(marked.now_ms, START);
    assert_eq!(f.put_references(START, &looked_at, &frozen).await, 0);
    assert_eq!(f.store.cold_thawed().await.unwrap(), None);
    let marked = store.cold_mark(0, TOKEN, Some(ColdMark::Thawed(due))).await;
    assert_eq!(marked.unwrap().unwrap().thawed, Some(due));
    assert_eq!(f.store.cold_thawed().await.unwrap(), Some(due));
    f.delete_segments().await;
    assert_eq!(f.body(id).await.unwrap(), body(200, "a"));
}

#[tokio::test]
async fn an_audit_finds_segments_that_are_missing_or_cut() {
    let f = ColdFixture::new().await;
    for letter in ["a", "b"] {
        f.publish(START, delayed(&body(200, letter), DAY_MS)).await;
    }
    assert_eq!(f.freeze(START).await, 2);
    let missing = async || {
        let (_, found) = audit(&f, false).await;
        let found = found.into_iter().filter_map(|it| match it.defect {
            Inconsistency::NoSegment { segment, jobs } => Some((segment, jobs)),
            _ => None,
        });
        found.collect::<Vec<_>>()
    };
    assert_eq!(missing().await, []);
    let segments = f.segments().await;
    f.objects().delete(&segments[..1]).await.unwrap();
    let root = std::fs::read_dir(f.folder.path()).unwrap().next().unwrap();
    let path = root.unwrap().path().join(segments[1].to_string());
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let mut expected = [(segments[0], 1), (segments[1], 1)];
    expected.sort();
    assert_eq!(missing().await, expected);
}

/// The job has one attempt, and it is not used.
#[tokio::test]
async fn a_job_whose_payload_cannot_be_read_is_given_back() {
    for bytes in SIZES {
        let f = ColdFixture::new().await;
        let id = f.publish(START, delayed(&body(bytes, "a"), DAY_MS)).await;
        let second = delayed(&body(bytes, "b"), DAY_MS);
        f.publish(START, second).await;
        assert_eq!(f.freeze(START).await, 2);
        let away = f.folder.path().with_extension("away");
        std::fs::rename(f.folder.path(), &away).unwrap();
        let due_ms = START + DAY_MS;
        f.move_due(due_ms).await;
        f.expect(due_ms, &[]).await;
        let peeked = f.body(id).await;
        assert!(
            matches!(peeked, Err(StoreError::ColdUnavailable(_))),
            "{peeked:?}"
        );
        assert_eq!(f.counts().await, [2, 0, 0, 0]);
        std::fs::rename(&away, f.folder.path()).unwrap();
        // Payloads can be read again after a second.
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        let later_ms = due_ms + 10_001;
        f.move_due(later_ms).await;
        let mut delivered = f.reserve(later_ms, 10, 1000).await;
        delivered.sort();
        assert_eq!(delivered, [body(bytes, "a"), body(bytes, "b")]);
    }
}

/// Of the jobs in front only the first few are read; the others are postponed as they are.
#[tokio::test]
async fn a_job_behind_many_whose_payloads_cannot_be_read_is_delivered() {
    const COLD: usize = 1000;
    let f = ColdFixture::new().await;
    for number in 0..COLD {
        let text = body(200, &format!("{number}"));
        f.publish(START, delayed(&text, DAY_MS)).await;
    }
    // A call looks at some of them.
    let mut frozen = 0;
    while frozen < COLD as u64 {
        frozen += f.freeze(START).await;
    }
    f.publish(START, delayed(&body(200, "warm"), DAY_MS)).await;
    let away = f.folder.path().with_extension("away");
    std::fs::rename(f.folder.path(), &away).unwrap();
    let due_ms = START + DAY_MS;
    f.move_due(due_ms).await;
    f.expect(due_ms, &[&body(200, "warm")]).await;
    assert_eq!(f.counts().await, [COLD as u64, 0, 1, 0]);
    consistency::check(&f.redis.url()).await;
    std::fs::rename(&away, f.folder.path()).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let later_ms = due_ms + 10_001;
    while f.counts().await[0] > 0 {
        f.move_due(later_ms).await;
    }
    let delivered = f.reserve(later_ms, COLD as u16, 60_000).await;
    let counts = f.counts().await;
    assert_eq!(delivered.len(), COLD, "{counts:?}");
}

/// One process has no `cold_url`. Another one reads an object that was altered or cut.
#[tokio::test]
async fn a_payload_that_is_not_certain_is_not_delivered() {
    let f = ColdFixture::new().await;
    let id = f.publish(START, delayed(&body(200, "a"), DAY_MS)).await;
    assert_eq!(f.freeze(START).await, 1);
    let mut without = config(&f.redis, f.folder.path());
    without.cold_url = None;
    without.buckets = 1;
    let without = tidegate_store::Store::connect(&without).await.unwrap();
    let peeked = without.peek_job(&f.queue, JobReference::Id(id)).await;
    let error = peeked.unwrap_err().to_string();
    assert!(error.contains("cold_url"), "{error}");

    let name = f.segments().await[0].to_string();
    let root = std::fs::read_dir(f.folder.path()).unwrap().next().unwrap();
    let path = root.unwrap().path().join(name);
    let whole = std::fs::read(&path).unwrap();
    let mut altered = whole.clone();
    altered[60] ^= 1;
    for bytes in [&altered[..], &whole[..whole.len() - 1], b""] {
        std::fs::write(&path, bytes).unwrap();
        let peeked = f.body(id).await;
        assert!(
            matches!(peeked, Err(StoreError::ColdUnavailable(_))),
            "{peeked:?}"
        );
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(f.body(id).await.unwrap(), body(200, "a"));
}

#[tokio::test]
async fn a_bucket_that_is_opened_again_has_thawed_nothing_behind() {
    let f = ColdFixture::new().await;
    f.publish(START, delayed(&body(200, "a"), DAY_MS)).await;
    let last = Partition(0xFF_FFFF);
    let store = f.store.at(START);
    let mark = async |mark| {
        let marked = store.cold_mark(0, TOKEN, Some(mark)).await;
        marked.unwrap().unwrap()
    };
    // Not more than it is closed.
    assert_eq!(mark(ColdMark::Thawed(last)).await.thawed, None);
    mark(ColdMark::Closed(last)).await;
    assert_eq!(mark(ColdMark::Thawed(last)).await.thawed, Some(last));
    // Another pump may have the tier switched on, and must not freeze what is taken for thawed.
    let warm = store.cold_scan(0, TOKEN, 4).await.unwrap().unwrap();
    assert!(
        warm.looked_at.is_empty() && warm.payloads.is_empty(),
        "{warm:?}"
    );
    let due = Partition::of_due_ms(START);
    let marked = mark(ColdMark::Closed(due)).await;
    assert_eq!((marked.closed, marked.thawed), (Some(due), Some(due)));
    assert_eq!(f.store.cold_thawed().await.unwrap(), Some(due));
    assert_eq!(f.freeze(START).await, 1);
    // After all payloads have come back, all jobs are looked at again.
    assert_eq!(f.thaw(START).await, 1);
    mark(ColdMark::Closed(last)).await;
    mark(ColdMark::Closed(due)).await;
    f.delete_segments().await;
    assert_eq!(f.freeze(START).await, 1);
}

#[tokio::test]
async fn a_cold_job_is_shown_as_a_sound_one() {
    for bytes in SIZES {
        let f = ColdFixture::new().await;
        let keyed = f.keyed("k", IfExists::Keep, &body(bytes, "a"), DAY_MS);
        let id = f.publish_keyed(START, keyed).await.id;
        assert_eq!(f.freeze(START).await, 1);
        let explained = f
            .store
            .at(START)
            .explain(&f.queue, id)
            .await
            .unwrap()
            .unwrap();
        assert!(!explained.is_damaged, "{bytes}");
        for with_attributes in [false, true] {
            let selection = JobSelection {
                states: vec![JobState::Delayed],
                from_ms: 0,
                before_ms: u64::MAX >> 16,
                with_attributes,
                with_failures: false,
            };
            let store = f.store.at(START);
            let page = store.list_jobs(f.queue.lane(0), &selection, None, 100);
            let listed = &page.await.unwrap().jobs[0];
            assert!(!listed.is_damaged, "{bytes} {with_attributes}");
            assert!(listed.job.extension.is_some(), "{bytes} {with_attributes}");
        }
    }
}
