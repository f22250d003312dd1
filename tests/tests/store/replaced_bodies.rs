//! Large bodies that are replaced while they are read: header and body come from Redis one after the other, and a job
//! with a key may get another version in between. That is no damage.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tidegate_core::v1::job::JobChange;
use tidegate_core::v1::publish::DueTime;
use tidegate_core::v1::publish::PublishResult;
use tidegate_core::v1::values::DurationMs;
use tidegate_core::{IfExists, RecordExtension};
use tidegate_core::{KeyHash, NativeOptions, NewJob};
use tidegate_store::{
    AuditEvent, AuditOptions, ChangeOutcome, KeyPlace, KeyedCall, PublishJob, PublishReply,
};
use tidegate_testkit::{consistency, print_figure};
use tokio_util::sync::CancellationToken;

use crate::fixture::{START, StoreFixture, TOKEN, fixture, job};

const DELAY_MS: u64 = 3_600_000;
const READS_FOR: Duration = Duration::from_secs(3);

/// The bodies of a job, by turns: two that are stored outside of the record, one of them compressed, and a small one.
/// The clock stands still, so a version has the same header each time.
fn versions() -> [Bytes; 3] {
    let mut noise = vec![0; 20_000];
    StdRng::seed_from_u64(1).fill_bytes(&mut noise);
    let mut half_noise = noise.clone();
    half_noise.extend_from_slice(&[b'x'; 20_000]);
    [noise.into(), half_noise.into(), "small".into()]
}

fn key(f: &StoreFixture, key: &str) -> KeyHash {
    KeyHash::of_job(&f.queue, key)
}

async fn replace(f: &StoreFixture, text: &str, delay_ms: u64, body: Bytes) -> PublishResult {
    let extension = RecordExtension {
        key_hash: Some(key(f, text).0),
        ..RecordExtension::default()
    };
    let native = NativeOptions {
        extension,
        ..NativeOptions::default()
    };
    let new = PublishJob {
        job: NewJob {
            body,
            delay_ms,
            tries: 0,
            native: Some(Box::new(native)),
            ..job("")
        },
        if_exists: IfExists::Replace,
        idempotency: None,
    };
    let call = KeyedCall {
        max_jobs: None,
        is_closed: false,
        place: KeyPlace::FIRST_LANE,
        asks: false,
        idempotency_window_ms: 1000,
        atomic: false,
    };
    let store = f.store.at(START);
    let published = store.publish_keyed(&f.queue, vec![new], call).await;
    match published.unwrap() {
        PublishReply::Done { jobs, .. } => jobs[0].unwrap().outcome,
        other => panic!("{other:?}"),
    }
}

/// Replaces two jobs, one delayed and one ready, until stopped. Returns how often.
async fn replace_all(f: &StoreFixture, stop: &CancellationToken) -> u64 {
    let (versions, mut replaced) = (versions(), 0);
    for at in [0, 1, 0, 2, 1, 2].into_iter().cycle() {
        if stop.is_cancelled() {
            return replaced;
        }
        for (text, delay_ms) in [("later", DELAY_MS), ("now", 0)] {
            let outcome = replace(f, text, delay_ms, versions[at].clone()).await;
            assert_eq!(outcome, PublishResult::Replaced);
            replaced += 1;
        }
    }
    unreachable!("versions repeat")
}

async fn read(f: &StoreFixture, stop: &CancellationToken) -> u64 {
    let (versions, store, mut read) = (versions(), f.store.at(START), 0);
    let change = JobChange::from(DueTime::After(DurationMs::saturating(DELAY_MS)));
    while !stop.is_cancelled() {
        let changed = store.change(&f.queue, key(f, "later"), change).await;
        assert!(matches!(changed.unwrap(), ChangeOutcome::Done(_)));
        let by_key = store.peek_job(&f.queue, key(f, "now")).await.unwrap();
        let oldest = store.peek_ready(&f.queue).await.unwrap();
        let peeked = [by_key, oldest].map(|peeked| peeked.expect("the job exists").job);
        for job in peeked {
            assert!(versions.contains(&job.body), "{} bytes", job.body.len());
            read += 1;
        }
    }
    read
}

async fn audit(f: &StoreFixture, stop: &CancellationToken) -> u64 {
    let options = AuditOptions {
        buckets: vec![],
        repair: true,
        pause: Duration::ZERO,
    };
    let mut audits = 0;
    while !stop.is_cancelled() {
        let mut found = Vec::new();
        let mut note = |event| {
            if let AuditEvent::Found(finding) = event {
                found.push(finding);
            }
        };
        f.store.at(START).audit(&options, &mut note).await.unwrap();
        assert_eq!(found, []);
        audits += 1;
    }
    audits
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_are_replaced_while_they_are_read_are_no_damage() {
    let f = fixture().await;
    f.store.roster_join(0, TOKEN, 3_600_000).await.unwrap();
    for (text, delay_ms) in [("later", DELAY_MS), ("now", 0)] {
        let outcome = replace(&f, text, delay_ms, versions()[0].clone()).await;
        assert_eq!(outcome, PublishResult::Created);
    }
    let (stop, begin) = (CancellationToken::new(), Instant::now());
    let timer = async {
        tokio::time::sleep(READS_FOR).await;
        stop.cancel();
    };
    let (first, second, reads, audits, ()) = tokio::join!(
        replace_all(&f, &stop),
        replace_all(&f, &stop),
        read(&f, &stop),
        audit(&f, &stop),
        timer
    );
    print_figure(&format!(
        "{} replacements, {reads} reads, {audits} audits in {:?}",
        first + second,
        begin.elapsed()
    ));
    assert!(reads > 0 && audits > 0);
    assert_eq!(f.counts().await, [1, 1, 0, 0]);
    consistency::check(&f.redis.url()).await;
}
