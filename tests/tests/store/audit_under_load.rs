//! The auditor and a bucket in use: consistent data is neither reported nor changed.

use std::time::Duration;

use futures_util::future::{join, join_all};
use tidegate_core::{JobId, JobState, NewJob, QueueKey};
use tidegate_store::{AuditEvent, AuditFinding, AuditOptions, AuditSummary, Claim, Store};
use tidegate_testkit::consistency;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::fixture::{START, StoreFixture, TOKEN, delayed, fixture, job};
use crate::wrong_counts::miscount;

/// More chunks than are read in one step: 20 of 100 jobs.
const DELAYED: usize = 2000;
const QUEUES: usize = 8;
const AUDITS: usize = 12;
/// Long, so that jobs are published and acked between two calls of the auditor.
const PAUSE: Duration = Duration::from_millis(8);
const HELD: Duration = Duration::from_millis(17);
const BETWEEN: Duration = Duration::from_millis(45);

async fn fill(f: &StoreFixture) {
    f.store.roster_join(0, TOKEN, 3_600_000).await.unwrap();
    let other = QueueKey::try_from("shop/delayed").unwrap();
    for _ in 0..DELAYED / 50 {
        let jobs = vec![delayed("x", 3_600_000); 50];
        f.store
            .at(START)
            .publish(&other, &jobs, None)
            .await
            .unwrap();
    }
}

fn queue(number: usize) -> QueueKey {
    QueueKey::try_from(format!("shop/busy-{number}").as_str()).unwrap()
}

/// Changes the jobs of a queue until stopped.
async fn use_queue(
    store: Store,
    number: usize,
    change: impl AsyncFn(&Store, &QueueKey),
    stop: CancellationToken,
) {
    let queue = queue(number);
    sleep(Duration::from_millis(7 * number as u64)).await;
    while !stop.is_cancelled() {
        change(&store, &queue).await;
        sleep(BETWEEN).await;
    }
}

async fn publish(store: &Store, queue: &QueueKey) -> JobId {
    let new = NewJob {
        tries: 1000,
        ..job("x")
    };
    store.publish(queue, &[new], None).await.unwrap()[0]
}

async fn publish_and_ack(store: &Store, queue: &QueueKey) {
    let id = publish(store, queue).await;
    sleep(HELD).await;
    let _ = store.ack(queue, id, None).await.unwrap();
}

async fn reserve_and_release(store: &Store, queue: &QueueKey) {
    let claim = Claim::new(1, 60_000);
    let reserved = store.reserve(queue, &[claim]).await.unwrap();
    sleep(HELD).await;
    match reserved.jobs[0].first() {
        Some(job) => drop(store.release(queue, job.id, job.attempt).await.unwrap()),
        None => drop(publish(store, queue).await),
    }
}

fn names(found: &[AuditFinding]) -> Vec<&'static str> {
    found.iter().map(|finding| finding.defect.name()).collect()
}

async fn audit(f: &StoreFixture, repair: bool) -> (AuditSummary, Vec<AuditFinding>) {
    let options = AuditOptions {
        buckets: vec![],
        repair,
        pause: PAUSE,
    };
    let mut found = Vec::new();
    let mut note = |event| {
        if let AuditEvent::Found(finding) = event {
            found.push(finding);
        }
    };
    let summary = f.store.at(START).audit(&options, &mut note).await.unwrap();
    (summary, found)
}

#[tokio::test]
async fn repairs_change_nothing_while_jobs_are_published_and_acked() {
    let f = fixture().await;
    fill(&f).await;
    let stop = CancellationToken::new();
    let users = (0..QUEUES).map(|number| {
        let store = f.store.at(START);
        use_queue(store, number, publish_and_ack, stop.clone())
    });
    let audits = async {
        for _ in 0..AUDITS {
            let (_, found) = audit(&f, true).await;
            assert_eq!(found, []);
        }
        stop.cancel();
    };
    join(audits, join_all(users)).await;
    consistency::check(&f.redis.url()).await;
}

/// The clock is stopped, so a job that was reserved and released has the same record as before.
#[tokio::test]
async fn reserved_and_released_jobs_cause_no_false_findings() {
    let f = fixture().await;
    fill(&f).await;
    let stop = CancellationToken::new();
    let users = (0..QUEUES).map(|number| {
        let store = f.store.at(START);
        use_queue(store, number, reserve_and_release, stop.clone())
    });
    let audits = async {
        for _ in 0..AUDITS {
            let (_, found) = audit(&f, false).await;
            assert!(!names(&found).contains(&"wrong_counts"), "{found:?}");
        }
        stop.cancel();
    };
    join(audits, join_all(users)).await;
    consistency::check(&f.redis.url()).await;
}

/// The timer of a lease of more than four slots is in an earlier slot than its end, which may be new.
#[tokio::test]
async fn long_leases_cause_no_false_findings() {
    const LEASE_MS: u64 = 600_000;
    const STEP_MS: u64 = 70_000;
    const STEPS: u64 = 100;
    let f = fixture().await;
    fill(&f).await;
    let stop = CancellationToken::new();
    let worker = async {
        for step in 0..STEPS {
            let store = f.store.at(START + step * STEP_MS);
            publish(&store, &queue(0)).await;
            let claim = Claim::new(1, LEASE_MS);
            store.reserve(&queue(0), &[claim]).await.unwrap();
            sleep(HELD).await;
        }
        stop.cancel();
    };
    let audits = async {
        while !stop.is_cancelled() {
            let (_, found) = audit(&f, true).await;
            assert_eq!(found, []);
        }
    };
    join(audits, worker).await;
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_wrong_count_of_an_idle_queue_is_repaired_while_another_is_in_use() {
    let f = fixture().await;
    fill(&f).await;
    publish(&f.store.at(START), &f.queue).await;
    miscount(&f, &f.queue, JobState::Ready, 9);
    let stop = CancellationToken::new();
    let user = use_queue(f.store.at(START), 0, publish_and_ack, stop.clone());
    let audits = async {
        let (summary, found) = audit(&f, true).await;
        assert_eq!((names(&found), summary.repaired), (vec!["wrong_counts"], 1));
        stop.cancel();
    };
    join(audits, user).await;
    consistency::check(&f.redis.url()).await;
}
