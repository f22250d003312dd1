//! The entries that name the topic of an id.

use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use serde_json::json;
use tidegate_testkit::{DaemonProgram, connect_to_redis, run_until_exit};

use crate::fixture::{YouzanStack, stored_jobs};

const ENTRY: &str = "tg:directory:shop/17";
const DAY_MS: i64 = 24 * 3_600_000;

async fn redis(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).unwrap();
    connect_to_redis(&client).await.unwrap()
}

#[tokio::test]
async fn without_its_entry_a_job_is_found_by_its_topic_alone() {
    let YouzanStack { stack, client } = YouzanStack::start("").await;
    let mut redis = redis(&stack.redis.url()).await;
    let unknown = json!({"command": "finish", "id": "17"});
    for lost in [false, true] {
        if lost {
            client.add("order", "17", 0, "x").await;
            let removed: bool = redis.del(ENTRY).await.unwrap();
            assert!(removed);
        }
        // As in the original, an id that is not known is one that is gone.
        for command in ["finish", "delete"] {
            client.done(json!({"command": command, "id": "17"})).await;
            let path = format!("/{command}");
            let answer = client.post(&path, &json!({"id": "17"})).await.expect(200);
            assert_eq!(answer.json()["code"], json!(0));
        }
    }
    assert_eq!(stack.totals().await.ready, 1, "nothing was changed");
    // A job that was popped has an entry, whatever was lost before.
    client.expect_pop("order", "17", "x").await;
    client.done(unknown.clone()).await;
    assert_eq!(stored_jobs(&stack).await, 0);
    client.add("order", "17", 0, "y").await;
    client.expect_pop("order", "17", "y").await;
    let _: bool = redis.del(ENTRY).await.unwrap();
    client.done(unknown).await;
    assert_eq!(stored_jobs(&stack).await, 1);
    for command in ["finish", "delete"] {
        let with_topic = json!({"command": command, "id": "17", "topic": "order"});
        client.done(with_topic).await;
        assert_eq!(stored_jobs(&stack).await, 0);
    }
    stack.finish().await;
}

#[tokio::test]
async fn an_entry_is_kept_for_30_days_after_the_job_is_due() {
    let YouzanStack { stack, client } = YouzanStack::start("").await;
    let mut redis = redis(&stack.redis.url()).await;
    let mut kept_days = async || {
        let kept_ms: i64 = redis.pttl(ENTRY).await.unwrap();
        kept_ms as f64 / DAY_MS as f64
    };
    client.add("order", "17", 10 * 24 * 3600, "x").await;
    assert!((39.9..=40.0).contains(&kept_days().await));
    let url = stack.redis.url();
    let audit = ["audit", "--redis", &url, "--pause-ms", "0"];
    let ended = run_until_exit(DaemonProgram::Pumpd, &audit, Duration::from_secs(60)).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    client.add("order", "17", 0, "x").await;
    client.expect_pop("order", "17", "x").await;
    assert!((29.9..=30.0).contains(&kept_days().await));
    client.add("order", "17", 0, "y").await;
    client.finish("17").await;
    assert!(
        (29.9..=30.0).contains(&kept_days().await),
        "the new one is not done"
    );
    client.expect_pop("order", "17", "y").await;
    client.finish("17").await;
    let hour = 1.0 / 24.0;
    assert!((hour / 2.0..=hour).contains(&kept_days().await));
    stack.finish().await;
}

#[tokio::test]
async fn a_job_that_an_interrupted_add_has_left_in_another_topic_is_deleted() {
    let YouzanStack { stack, client } = YouzanStack::start("").await;
    let mut redis = redis(&stack.redis.url()).await;
    for command in ["delete", "add"] {
        client.add("order", "17", 0, "old").await;
        let _: bool = redis.del(ENTRY).await.unwrap();
        client.add("bill", "17", 0, "new").await;
        assert_eq!(stored_jobs(&stack).await, 2);
        // What an API leaves behind that was killed between the publish and the deletion of the old job.
        let _: () = redis.set(ENTRY, "bill,order").await.unwrap();
        match command {
            "add" => client.add("bill", "17", 0, "newest").await,
            _ => client.delete("17").await,
        }
        let left = stored_jobs(&stack).await;
        assert_eq!(left, u64::from(command == "add"));
    }
    // An entry with other contents is none.
    let _: () = redis.set(ENTRY, b"\xff/ ,,").await.unwrap();
    client.delete("17").await;
    client.expect_pop("order,bill", "17", "newest").await;
    client.finish("17").await;
    let _: () = redis
        .pset_ex(ENTRY, "order", Duration::from_secs(60).as_millis() as u64)
        .await
        .unwrap();
    stack.finish().await;
}
