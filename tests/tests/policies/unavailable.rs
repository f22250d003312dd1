//! Policies while Redis is unavailable, and afterwards.

use std::time::Duration;

use tidegate_testkit::{Stack, eventually};

use crate::fixture::{PATIENCE, consumer, policy, read_now};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_known_policies_stay_in_effect_without_redis_and_after_its_restart() {
    let mut stack = Stack::builder().apis(2).pumps(0).start().await;
    let queue = stack.queue("q").await;
    let closed = queue.sibling("closed");
    for number in 0..2 {
        let api = stack.api(number);
        queue.patch_policy(api, r#"{"paused":true}"#).await;
        closed.patch_policy(api, r#"{"closed":true}"#).await;
        read_now(stack.api(1 - number)).await;
    }
    queue.publish("x").id().await;
    let waiting = consumer(&queue, 60);
    stack.api(0).wait_for_waiting_consumers(1).await;
    stack.redis.kill();
    // Several reads of the table fail.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    closed.publish("x").send().await.unwrap().expect(400);
    let failed = queue.try_policy(stack.api(0), "PATCH", "{}", None).await;
    failed.unwrap().expect(503);
    // A pause needs no Redis.
    queue.consume().job().await.ok_or(()).unwrap_err();
    tokio::task::block_in_place(|| stack.redis.restart()).unwrap();
    for number in 0..2 {
        let queue = queue.on_api(stack.api(number));
        // Each process connects again by itself.
        eventually("Redis is back", PATIENCE, async || {
            match queue.peek().await {
                answer if answer.status == 200 => Ok(()),
                answer => Err(answer),
            }
        })
        .await;
        assert!(queue.consume().timeout_s(1).job().await.is_none());
        closed
            .on_api(stack.api(number))
            .publish("x")
            .send()
            .await
            .unwrap()
            .expect(400);
    }
    assert!(!waiting.is_finished());
    assert_eq!(policy(stack.api(1), &queue).await.0["paused"], true);
    queue
        .patch_policy(stack.api(1), r#"{"paused":false}"#)
        .await;
    assert_eq!(waiting.await.unwrap().unwrap().0, "x");
    stack.finish().await;
}

/// `SET tg:policies x`: the table cannot be read or written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_another_type_stops_no_job_and_no_policy_in_effect() {
    let stack = Stack::builder().pumps(0).start().await;
    let queue = stack.queue("q").await;
    let closed = queue.sibling("closed");
    closed
        .patch_policy(stack.api(0), r#"{"closed":true}"#)
        .await;
    let mut connection = redis::Client::open(stack.redis.url())
        .unwrap()
        .get_connection()
        .unwrap();
    redis::cmd("SET")
        .arg("tg:policies")
        .arg("x")
        .exec(&mut connection)
        .unwrap();
    let failed = queue.try_policy(stack.api(0), "PUT", "{}", None).await;
    failed.unwrap().expect(503);
    eventually("a failed read", PATIENCE, async || {
        match stack.api(0).metric("tidegate_storage_failures_total").await {
            failures if failures >= 3.0 => Ok(()),
            failures => Err(failures),
        }
    })
    .await;
    queue.publish("x").id().await;
    assert_eq!(queue.consume().job().await.unwrap().text(), "x");
    closed.publish("x").send().await.unwrap().expect(400);
    redis::cmd("DEL")
        .arg("tg:policies")
        .exec(&mut connection)
        .unwrap();
    queue.patch_policy(stack.api(0), r#"{"closed":true}"#).await;
    queue.publish("x").send().await.unwrap().expect(400);
    closed.publish("x").send().await.unwrap().expect(201);
    stack.finish().await;
}
