//! The sweep forgets queues that are empty and no longer used. Nothing of them stays, and no job is lost.

use std::collections::BTreeSet;

use tidegate_core::{NewJob, QueueKey};
use tidegate_store::Claim;
use tidegate_testkit::consistency;

use crate::fixture::{START, StoreFixture, delayed, fixture, job};

/// A queue that is empty at two checks, one idle time apart, is forgotten.
const IDLE_MS: u64 = 60_000;

fn reply_queue(number: usize) -> QueueKey {
    QueueKey::try_from(format!("shop/reply-{number}").as_str()).unwrap()
}

/// Publishes to a queue, consumes and acknowledges the job.
async fn use_once(f: &StoreFixture, queue: &QueueKey, now_ms: u64) {
    let store = f.store.at(now_ms);
    let id = store.publish(queue, &[job("x")], None).await.unwrap()[0];
    let claims = [Claim::new(1, 1000)];
    let reserved = store.reserve(queue, &claims).await.unwrap();
    assert_eq!(reserved.jobs[0].len(), 1);
    let _ = store.ack(queue, id, None).await.unwrap();
}

/// All keys of the bucket.
fn keys(f: &StoreFixture) -> BTreeSet<String> {
    let mut keys = redis::cmd("KEYS");
    keys.arg("tg:0:{8209}:*");
    let keys: BTreeSet<String> = keys.query(&mut f.connection()).unwrap();
    let prefix = "tg:0:{8209}:".len();
    keys.into_iter()
        .map(|key| key[prefix..].to_owned())
        .collect()
}

fn listed(f: &StoreFixture) -> usize {
    let mut fields = redis::cmd("HKEYS");
    fields.arg("tg:0:{8209}:queues");
    let fields: Vec<String> = fields.query(&mut f.connection()).unwrap();
    // The others are the last queue number, and the number of queues of the namespace.
    let names = fields.iter().filter(|field| field.len() > "shop/".len());
    names.count()
}

#[tokio::test]
async fn queues_that_were_used_once_leave_nothing_behind() {
    const QUEUES: usize = 250;
    let f = fixture().await;
    f.move_due(START).await;
    for number in 0..QUEUES {
        use_once(&f, &reply_queue(number), START).await;
    }
    assert_eq!(listed(&f), QUEUES);
    f.sweep(START + IDLE_MS - 1).await;
    assert_eq!(listed(&f), QUEUES);
    f.sweep(START + IDLE_MS).await;
    assert_eq!(
        listed(&f),
        QUEUES,
        "an empty queue may have been used a moment ago"
    );
    f.sweep(START + 2 * IDLE_MS).await;
    assert_eq!(listed(&f), 0);
    f.move_due(START + 2 * IDLE_MS).await;
    let left = ["lock", "queues", "seq"].map(str::to_owned);
    assert_eq!(keys(&f), BTreeSet::from(left));
}

#[tokio::test]
async fn a_queue_in_use_is_not_forgotten() {
    let f = fixture().await;
    f.move_due(START).await;
    for minute in 0..30 {
        use_once(&f, &f.queue, START + minute * IDLE_MS).await;
        f.sweep(START + minute * IDLE_MS + IDLE_MS / 2).await;
        assert_eq!(listed(&f), 1, "after {minute} minutes");
    }
    let last_ms = START + 29 * IDLE_MS;
    f.sweep(last_ms + IDLE_MS).await;
    f.sweep(last_ms + 2 * IDLE_MS).await;
    assert_eq!(listed(&f), 0);
}

/// At first its block has only queues that are in use.
#[tokio::test]
async fn a_queue_that_was_in_use_for_long_is_forgotten_as_soon() {
    let f = fixture().await;
    f.move_due(START).await;
    f.publish(START, job("x")).await;
    for check in 1..5 {
        f.sweep(START + check * IDLE_MS).await;
    }
    let last_ms = START + 4 * IDLE_MS;
    let store = f.store.at(last_ms);
    let reserved = store.reserve(&f.queue, &[Claim::new(1, 1000)]).await;
    let id = reserved.unwrap().jobs[0][0].id;
    let _ = store.ack(&f.queue, id, None).await.unwrap();
    f.sweep(last_ms + IDLE_MS).await;
    assert_eq!(listed(&f), 1, "it may have been used a moment ago");
    f.sweep(last_ms + 2 * IDLE_MS).await;
    assert_eq!(listed(&f), 0);
}

/// A job in any state keeps its queue.
#[tokio::test]
async fn a_queue_with_a_job_is_not_forgotten() {
    let f = fixture().await;
    f.move_due(START).await;
    let day_ms = 86_400_000;
    let queues: Vec<QueueKey> = (0..4).map(reply_queue).collect();
    let store = f.store.at(START);
    let new = |delay_ms, tries| NewJob {
        tries,
        ..delayed("x", delay_ms)
    };
    store
        .publish(&queues[0], &[new(3 * day_ms, 1)], None)
        .await
        .unwrap();
    store.publish(&queues[1], &[new(0, 1)], None).await.unwrap();
    store.publish(&queues[2], &[new(0, 2)], None).await.unwrap();
    store.publish(&queues[3], &[new(0, 1)], None).await.unwrap();
    for (queue, ttr_ms) in [(&queues[2], day_ms), (&queues[3], 1)] {
        let claims = [Claim::new(1, ttr_ms)];
        let _ = store.reserve(queue, &claims).await.unwrap();
    }
    assert_eq!(f.move_due(START + 10).await.buried, 1);
    for check in 1..20 {
        f.sweep(START + check * IDLE_MS).await;
        f.move_due(START + check * IDLE_MS).await;
    }
    assert_eq!(listed(&f), 4);
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_forgotten_queue_can_be_used_again() {
    let f = fixture().await;
    f.move_due(START).await;
    let mut now_ms = START;
    for _ in 0..3 {
        use_once(&f, &f.queue, now_ms).await;
        f.sweep(now_ms + IDLE_MS).await;
        f.sweep(now_ms + 2 * IDLE_MS).await;
        assert_eq!(listed(&f), 0);
        assert_eq!(f.counts().await, [0; 4]);
        now_ms += 3 * IDLE_MS;
        f.publish(now_ms, job("again")).await;
        f.expect(now_ms, &["again"]).await;
        assert_eq!(f.move_due(now_ms + 1000).await.buried, 1);
        let store = f.store.at(now_ms + 1000);
        assert_eq!(store.purge_dead(&f.queue, 10).await.unwrap(), 1);
    }
    consistency::check(&f.redis.url()).await;
}

/// A closed lane has its epoch where an open one has its number: it must stay closed.
#[tokio::test]
async fn a_closed_lane_is_not_forgotten() {
    let f = fixture().await;
    f.move_due(START).await;
    use_once(&f, &f.queue, START).await;
    let mut close = redis::cmd("HSET");
    close
        .arg("tg:0:{8209}:queues")
        .arg(f.queue.to_string())
        .arg("closed 7 1");
    close.exec(&mut f.connection()).unwrap();
    for check in 1..5 {
        f.sweep(START + check * IDLE_MS).await;
    }
    assert_eq!(listed(&f), 1);
}
