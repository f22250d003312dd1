//! Calls on many jobs of different sizes, whose records are in several chunks.

use std::collections::BTreeSet;

use bytes::Bytes;
use tidegate_core::v1::consume::Outcome;
use tidegate_core::{JobId, NewJob, QueueKey};
use tidegate_store::{AckRequest, Claim};
use tidegate_testkit::consistency;

use crate::fixture::{START, StoreFixture, delayed, fixture, job};

/// The bounds of a chunk: jobs, and bytes of memory.
const CHUNK: u64 = 100;
const CHUNK_BYTES: u64 = 8192;

async fn publish_all(f: &StoreFixture, jobs: &[NewJob]) -> Vec<JobId> {
    let mut ids = Vec::new();
    for batch in jobs.chunks(64) {
        let published = f.store.at(START).publish(&f.queue, batch, None).await;
        ids.extend(published.unwrap());
    }
    ids
}

fn sized(bytes: usize) -> NewJob {
    NewJob {
        body: Bytes::from(vec![b'x'; bytes]),
        ..job("")
    }
}

#[tokio::test]
async fn a_chunk_is_bounded_in_jobs_and_in_bytes() {
    for bytes in [0, 20, 100, 300, 1000] {
        let f = fixture().await;
        let ids = publish_all(&f, &vec![sized(bytes); 300]).await;
        let numbers: BTreeSet<u64> = ids.iter().map(|id| id.number()).collect();
        assert_eq!(numbers.len(), ids.len());
        let chunks: BTreeSet<u64> = numbers.iter().map(|number| number / CHUNK).collect();
        for chunk in &chunks {
            let key = format!("tg:0:{{8209}}:c:{chunk}");
            let usage = redis::cmd("MEMORY").arg("USAGE").arg(&key).to_owned();
            let used: u64 = usage.query(&mut f.connection()).unwrap();
            // The command also counts the key and its entry.
            assert!(used <= CHUNK_BYTES + 200, "{used} bytes for {bytes} each");
        }
        // 300 jobs with a header each leave little of their chunks empty, the last one excepted.
        let most = (300 * (bytes as u64 + 60)).div_ceil(CHUNK_BYTES).max(3) + 6;
        assert!(chunks.len() as u64 <= most, "{} chunks", chunks.len());
        consistency::check(&f.redis.url()).await;
    }
}

#[tokio::test]
async fn one_call_serves_jobs_of_many_sizes_in_many_chunks() {
    let f = fixture().await;
    let jobs: Vec<NewJob> = (0..256)
        .map(|n| sized([0, 1000, 100, 5000][n % 4]))
        .collect();
    let ids = publish_all(&f, &jobs).await;
    assert!(ids.is_sorted_by_key(|id| id.number()));
    let claim = Claim::new(200, 600_000);
    let store = f.store.at(START);
    let reserved = store.reserve(&f.queue, &[claim, claim]).await.unwrap();
    let counts: Vec<usize> = reserved.jobs.iter().map(Vec::len).collect();
    assert_eq!(counts, [200, 56]);
    let found = reserved.jobs.iter().flatten();
    assert!(found.clone().map(|job| job.id).eq(ids.iter().copied()));
    let sizes: Vec<usize> = found.map(|job| job.body.len()).collect();
    assert!(sizes.into_iter().eq(jobs.iter().map(|job| job.body.len())));
    consistency::check(&f.redis.url()).await;
    let done: Vec<AckRequest> = ids.iter().copied().map(AckRequest::from).collect();
    for acked in store.ack_all(&f.queue, &done, 0).await.unwrap() {
        assert_eq!((acked.outcome, acked.age_ms), (Outcome::DONE, 0));
    }
    assert_eq!(f.counts().await, [0, 0, 0, 0]);
    assert_eq!(f.move_due(START + 600_000).await.ready, 0);
    assert_eq!(f.keys_of_jobs(), Vec::<String>::new());
}

#[tokio::test]
async fn a_job_that_is_acked_twice_in_a_call_is_counted_once() {
    let f = fixture().await;
    let id = f.publish(START, delayed("a", 60_000)).await;
    let kept = f.publish(START, delayed("b", 60_000)).await;
    let done = [id, id].map(AckRequest::from);
    let acked = f.store.at(START).ack_all(&f.queue, &done, 0).await;
    let outcomes: Vec<_> = acked.unwrap().iter().map(|acked| acked.outcome).collect();
    assert_eq!(outcomes, [Outcome::DONE, Outcome::Gone]);
    assert_eq!(f.counts().await, [1, 0, 0, 0]);
    consistency::check(&f.redis.url()).await;
    assert!(f.store.peek_job(&f.queue, kept).await.unwrap().is_some());
}

#[tokio::test]
async fn a_job_with_two_hints_is_delivered_once() {
    let f = fixture().await;
    let id = f.publish(START, job("a")).await;
    let push = redis::cmd("RPUSH")
        .arg("tg:0:{8209}:ready:1")
        .arg(id.number())
        .to_owned();
    push.exec(&mut f.connection()).unwrap();
    f.publish(START, job("b")).await;
    f.expect(START, &["a", "b"]).await;
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_hint_in_the_list_of_another_queue_delivers_nothing_there() {
    let f = fixture().await;
    let other = QueueKey::try_from("shop/other").unwrap();
    f.publish(START, job("a")).await;
    let store = f.store.at(START);
    let ids = store.publish(&other, &[job("b")], None).await.unwrap();
    redis::cmd("RPUSH")
        .arg("tg:0:{8209}:ready:1")
        .arg(ids[0].number())
        .exec(&mut f.connection())
        .unwrap();
    f.expect(START, &["a"]).await;
    let claim = Claim::new(2, 1000);
    let reserved = store.reserve(&other, &[claim]).await.unwrap();
    assert_eq!(reserved.jobs[0].len(), 1);
    consistency::check(&f.redis.url()).await;
}
