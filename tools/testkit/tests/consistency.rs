//! The consistency check finds each kind of damage.
#![allow(clippy::unwrap_used, reason = "test helpers panic to fail the test")]

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tidegate_core::{JobsByState, NewJob, QueueKey};
use tidegate_store::{Claim, MoveDueOutcome, Store, StoreConfig};
use tidegate_testkit::consistency;
use tidegate_testkit::{RedisServer, connect_to_redis, eventually, start_redis};

const TOKEN: &str = "pump";

/// One bucket with one queue per job state, and one job in each queue.
struct TestBucket {
    server: RedisServer,
    store: Store,
    connection: MultiplexedConnection,
    /// The numbers of each queue and its job. In commands and messages `@ready` stands for the number
    /// of the queue, `#ready` for the number of the job, `%ready` for its chunk and `&ready` for its field
    /// in the chunk.
    numbers: Vec<(&'static str, u64, u64)>,
}

fn new_job(delay_ms: u64, ttl_ms: u64, body: Vec<u8>) -> NewJob {
    NewJob {
        body: body.into(),
        attributes: vec![],
        delay_ms,
        ttl_ms,
        tries: 1,
        mark: false,
        native: None,
    }
}

fn key(queue: &str) -> QueueKey {
    QueueKey::try_from(format!("ns/{queue}").as_str()).unwrap()
}

async fn empty_bucket() -> TestBucket {
    let server = start_redis();
    let config = StoreConfig {
        buckets: 1,
        compress_from_bytes: usize::MAX,
        ..StoreConfig::new(server.url())
    };
    let store = Store::connect(&config).await.unwrap();
    let _ = store.lease_acquire(0, TOKEN, &[]).await.unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let connection = connect_to_redis(&client).await.unwrap();
    TestBucket {
        server,
        store,
        connection,
        numbers: vec![],
    }
}

async fn filled_bucket() -> TestBucket {
    let mut bucket = empty_bucket().await;
    let large = vec![b'x'; 5000];
    bucket.publish("ready", new_job(0, 600_000, large)).await;
    bucket.publish("delayed", new_job(60_000, 0, vec![])).await;
    bucket.publish("far", new_job(86_400_000, 0, vec![])).await;
    bucket.publish("leased", new_job(0, 0, vec![])).await;
    bucket.lease("leased", 60_000).await;
    bucket.publish("dead", new_job(0, 0, vec![])).await;
    bucket.lease("dead", 0).await;
    let all_buried = async || match bucket.store.move_due(0, TOKEN, 100, 5).await.unwrap() {
        MoveDueOutcome::Done { buried: 1, .. } => Ok(()),
        other => Err(format!("{other:?}")),
    };
    eventually("one is buried", Duration::from_secs(5), all_buried).await;
    bucket
}

impl TestBucket {
    async fn publish(&mut self, queue: &'static str, job: NewJob) {
        let ids = self.store.publish(&key(queue), &[job], None).await.unwrap();
        let mut number = redis::cmd("HGET");
        number.arg("tg:0:{8209}:queues").arg(key(queue).to_string());
        let number: u64 = number.query_async(&mut self.connection).await.unwrap();
        self.numbers.push((queue, number, ids[0].number()));
    }

    async fn lease(&self, queue: &str, ttr_ms: u64) {
        let claim = Claim::new(1, ttr_ms);
        let reserved = self.store.reserve(&key(queue), &[claim]).await.unwrap();
        assert_eq!(reserved.jobs[0].len(), 1);
    }

    fn expand(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, queue, job) in &self.numbers {
            text = text.replace(&format!("@{name}"), &queue.to_string());
            text = text.replace(&format!("#{name}"), &job.to_string());
            text = text.replace(&format!("%{name}"), &(job / 100).to_string());
            text = text.replace(&format!("&{name}"), &format!("{:02}", job % 100));
        }
        text
    }

    async fn run(&mut self, command: &str) {
        let command = self.expand(command);
        let mut words = command.split(' ');
        let mut sent = redis::cmd(words.next().unwrap());
        for word in words {
            sent.arg(word);
        }
        let _: redis::Value = sent.query_async(&mut self.connection).await.unwrap();
    }

    async fn defects(&self) -> Vec<String> {
        consistency::defects(&self.server.url()).await
    }
}

/// Damages the data with these commands, and compares the reported defects with the expected ones.
async fn expect(commands: &[&str], message: &[&str]) {
    let mut bucket = filled_bucket().await;
    assert_eq!(bucket.defects().await, Vec::<String>::new());
    for command in commands {
        bucket.run(command).await;
    }
    let expected: Vec<String> = message
        .iter()
        .map(|line| format!("bucket 0: {}", bucket.expand(line)))
        .collect();
    assert_eq!(bucket.defects().await, expected, "after {commands:?}");
}

#[tokio::test]
async fn consistent_data_have_no_defects_and_the_expected_totals() {
    let bucket = filled_bucket().await;
    consistency::check(&bucket.server.url()).await;
    let totals = consistency::totals(&bucket.server.url()).await;
    let expected = JobsByState {
        delayed: 2,
        ready: 1,
        leased: 1,
        dead: 1,
        done: 0,
    };
    assert_eq!(totals, expected);
}

#[tokio::test]
async fn unreachable_jobs_are_found() {
    for (command, message) in [
        (
            "DEL tg:0:{8209}:ready:@ready",
            "job #ready is ready and in its list 0 times",
        ),
        (
            "DEL tg:0:{8209}:dead:@dead",
            "job #dead is dead and in its list 0 times",
        ),
        (
            "ZREM tg:0:{8209}:near:@delayed #delayed",
            "job #delayed is delayed and has no timer",
        ),
        (
            "ZREM tg:0:{8209}:near:@leased #leased",
            "job #leased is leased and has no timer",
        ),
        (
            "ZINCRBY tg:0:{8209}:near:@leased 7 #leased",
            "job #leased is leased and its timer is 7 ms late",
        ),
    ] {
        expect(&[command], &[message]).await;
    }
}

#[tokio::test]
async fn a_missing_far_timer_is_found() {
    let mut bucket = filled_bucket().await;
    let mut range = redis::cmd("ZRANGE");
    range.arg("tg:0:{8209}:slots").arg(0).arg(-1);
    let slots: Vec<String> = range.query_async(&mut bucket.connection).await.unwrap();
    assert_eq!(slots.len(), 1);
    bucket.run("DEL tg:0:{8209}:slots").await;
    let expected = format!("bucket 0: slot {} is not loaded in time", slots[0]);
    assert_eq!(bucket.defects().await, [expected]);
    bucket
        .run(&format!("DEL tg:0:{{8209}}:far:{}", slots[0]))
        .await;
    let expected = bucket.expand("bucket 0: job #far is delayed and has no timer");
    assert_eq!(bucket.defects().await, [expected]);
}

#[tokio::test]
async fn timers_of_a_queue_that_is_not_due_in_time_are_found() {
    let message = "queue @delayed has near timers and is not due in time";
    expect(&["ZREM tg:0:{8209}:due @delayed"], &[message]).await;
    expect(&["ZINCRBY tg:0:{8209}:due 7 @delayed"], &[message]).await;
}

#[tokio::test]
async fn a_timer_among_those_of_another_queue_is_found() {
    let moved = [
        "ZREM tg:0:{8209}:near:@delayed #delayed",
        "ZADD tg:0:{8209}:near:@leased 5 #delayed",
        "ZADD tg:0:{8209}:due 5 @leased",
    ];
    expect(&moved, &["job #delayed is delayed and has no timer"]).await;
}

#[tokio::test]
async fn jobs_that_are_listed_twice_are_found() {
    let message = "job #ready is ready and in its list 2 times";
    expect(&["RPUSH tg:0:{8209}:ready:@ready #ready"], &[message]).await;
}

#[tokio::test]
async fn wrong_counts_are_found() {
    let message = "queue @leased counts 2 leased jobs, there are 1";
    expect(&["HINCRBY tg:0:{8209}:q:@leased leased 1"], &[message]).await;
    let delete = [
        "HDEL tg:0:{8209}:c:%leased &leased",
        "ZREM tg:0:{8209}:near:@leased #leased",
    ];
    let message = "queue @leased counts 1 leased jobs, there are 0";
    expect(&delete, &[message]).await;
}

#[tokio::test]
async fn bodies_without_records_and_records_without_bodies_are_found() {
    expect(
        &["DEL tg:0:{8209}:body:#ready"],
        &["job #ready has no body"],
    )
    .await;
    let message = "job 99 has a body without a record";
    expect(&["SET tg:0:{8209}:body:99 x"], &[message]).await;
}

#[tokio::test]
async fn an_expiry_without_a_sweep_is_found() {
    let message = "job #ready expires and is not in the index of the sweep";
    expect(&["DEL tg:0:{8209}:expiry"], &[message]).await;
}

#[tokio::test]
async fn stale_hints_are_not_defects() {
    let stale = [
        "RPUSH tg:0:{8209}:ready:@ready 77",
        "RPUSH tg:0:{8209}:dead:@dead #ready",
        "ZADD tg:0:{8209}:near:@ready 5 #ready",
        "ZADD tg:0:{8209}:near:@ready 5 99",
        "ZADD tg:0:{8209}:due 5 @ready",
        "ZADD tg:0:{8209}:due 5 99",
        "LPUSH tg:0:{8209}:ready:@delayed #delayed",
    ];
    expect(&stale, &[]).await;
}
