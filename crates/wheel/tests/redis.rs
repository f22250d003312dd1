//! Tasks in a hash of a real Redis: restarts, order, two wheels, damage, a Redis that goes away.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by a panic, and may block"
)]

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tidegate_testkit::{RedisServer, start_redis};
use tidegate_wheel::{Persistence, Redis, SavedTask, TaskId, TimedTask, Wheel};
use tokio::sync::mpsc;
use tokio::time::timeout;

const KEY: &str = "app:tasks";
/// Far more than any of the tests needs.
const LONG: Duration = Duration::from_secs(60);

fn task(number: u64, payload: &str) -> SavedTask {
    let mut id = [0; 16];
    id[8..].copy_from_slice(&number.to_be_bytes());
    SavedTask {
        id: TaskId::from_bytes(id),
        task_type: Arc::from("remind"),
        due: UNIX_EPOCH + Duration::from_millis(1_800_000_000_000 + number),
        payload: payload.as_bytes().into(),
    }
}

async fn connect(redis: &RedisServer) -> Redis {
    Redis::connect(&redis.url(), KEY).await.unwrap()
}

async fn loaded(redis: &RedisServer) -> Vec<SavedTask> {
    let hash = connect(redis).await;
    let mut tasks = hash.load().await.unwrap();
    hash.close().await.unwrap();
    tasks.sort_by_key(|task| task.id);
    tasks
}

fn connection(redis: &RedisServer) -> redis::Connection {
    let client = redis::Client::open(redis.url()).unwrap();
    client.get_connection().unwrap()
}

#[tokio::test]
async fn saved_tasks_are_loaded_and_changes_take_effect_in_order() {
    let redis = start_redis();
    let hash = connect(&redis).await;
    for number in 0..10 {
        hash.save(task(number, "{}")).await.unwrap();
    }
    hash.delete(task(3, "").id).await.unwrap();
    hash.delete(task(77, "").id).await.unwrap();
    hash.save(task(4, "[4]")).await.unwrap();
    // The futures are dropped.
    drop(hash.save(task(20, "1")));
    drop(hash.delete(task(20, "1").id));
    drop(hash.save(task(21, "2")));
    hash.close().await.unwrap();
    let mut expected: Vec<SavedTask> = (0..10)
        .filter(|number| *number != 3)
        .map(|number| task(number, if number == 4 { "[4]" } else { "{}" }))
        .collect();
    expected.push(task(21, "2"));
    assert_eq!(loaded(&redis).await, expected);
}

#[tokio::test]
async fn a_hash_has_one_wheel_and_the_lock_of_a_dead_one_ends() {
    let redis = start_redis();
    let first = connect(&redis).await;
    let refused = Redis::connect(&redis.url(), KEY).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ResourceBusy);
    assert!(refused.to_string().contains(KEY), "{refused}");
    // As after a crash of the first: its lock stays, and nothing renews it.
    first.save(task(1, "{}")).await.unwrap();
    first.close().await.unwrap();
    let mut other = connection(&redis);
    let lock = format!("{KEY}:owner");
    let mut set = redis::Cmd::set(&lock, "another");
    set.arg("PX").arg(2000).exec(&mut other).unwrap();
    let begun_at = Instant::now();
    assert_eq!(loaded(&redis).await, [task(1, "{}")]);
    assert!(begun_at.elapsed() >= Duration::from_millis(1500));
}

#[tokio::test]
async fn a_wheel_that_has_lost_its_lock_saves_nothing() {
    let redis = start_redis();
    let hash = connect(&redis).await;
    let mut other = connection(&redis);
    let lock = format!("{KEY}:owner");
    redis::Cmd::set(&lock, "another").exec(&mut other).unwrap();
    let refused = hash.save(task(1, "{}")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ResourceBusy);
    hash.close().await.unwrap();
    let owner: String = redis::Cmd::get(&lock).query(&mut other).unwrap();
    assert_eq!(owner, "another", "the lock of another is not released");
    redis::Cmd::del(&lock).exec(&mut other).unwrap();
    assert_eq!(loaded(&redis).await, []);
}

#[tokio::test]
async fn a_damaged_record_is_named() {
    let redis = start_redis();
    let mut other = connection(&redis);
    let id = task(1, "").id.to_string();
    redis::Cmd::hset(KEY, &id, "17 damaged")
        .exec(&mut other)
        .unwrap();
    let refused = Redis::connect(&redis.url(), KEY).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidData);
    assert!(refused.to_string().contains(&id), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_fails_without_redis_and_succeeds_when_it_is_back() {
    let mut redis = start_redis();
    let hash = connect(&redis).await;
    hash.save(task(1, "{}")).await.unwrap();
    redis.kill();
    let failed = timeout(LONG, hash.save(task(2, "{}"))).await.unwrap();
    failed.unwrap_err();
    tokio::task::block_in_place(|| redis.restart()).unwrap();
    let again = async {
        while hash.save(task(3, "{}")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(LONG, again).await.unwrap();
    hash.close().await.unwrap();
    let tasks = loaded(&redis).await;
    assert!(tasks.contains(&task(1, "{}")) && tasks.contains(&task(3, "{}")));
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Remind(u32);

impl TimedTask for Remind {
    const TYPE: &'static str = "remind";
}

/// A wheel whose tasks are sent to the receiver.
async fn wheel(redis: &RedisServer) -> (Wheel<Redis>, mpsc::Receiver<Remind>) {
    let (sender, receiver) = mpsc::channel(16);
    let builder = Wheel::builder().executor(move |task: Remind| {
        let sender = sender.clone();
        async move {
            let _ = sender.send(task).await;
        }
    });
    let builder = builder.persistence(connect(redis).await);
    (builder.start().await.unwrap(), receiver)
}

#[tokio::test]
async fn a_task_that_was_rescheduled_runs_after_a_restart() {
    let redis = start_redis();
    let (first, _) = wheel(&redis).await;
    let hour = Duration::from_secs(3600);
    let soon = first.schedule(Remind(1), hour).await.unwrap();
    first.schedule(Remind(2), hour).await.unwrap();
    assert!(first.reschedule(soon, hour * 2).await.unwrap());
    let listed = first.list(10);
    let numbers = listed.iter().map(|task| task.read().unwrap().unwrap());
    assert_eq!(numbers.collect::<Vec<Remind>>(), [Remind(2), Remind(1)]);
    assert_eq!(first.list(1).len(), 1);
    assert!(
        first
            .reschedule(soon, Duration::from_millis(1500))
            .await
            .unwrap()
    );
    first.shutdown().await.unwrap();
    let (second, mut receiver) = wheel(&redis).await;
    let run = timeout(LONG, receiver.recv()).await.unwrap();
    assert_eq!(run, Some(Remind(1)));
    assert!(!second.reschedule(soon, hour).await.unwrap(), "it has run");
    second.shutdown().await.unwrap();
    assert_eq!(loaded(&redis).await.len(), 1);
}
