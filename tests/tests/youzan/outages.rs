//! Restarts of the API, and a Redis that is unavailable.

use std::time::Duration;

use serde_json::json;
use tidegate_testkit::eventually;

use crate::fixture::{YouzanStack, stored_jobs};

#[tokio::test]
async fn jobs_and_entries_survive_a_restart_of_the_api() {
    let YouzanStack { stack, client } = YouzanStack::start("").await;
    client.add("order", "1", 0, "reserved").await;
    client.add("order", "2", 0, "ready").await;
    client.add("order", "3", 3600, "delayed").await;
    client.expect_pop("order", "1", "reserved").await;
    stack.api(0).kill();
    stack.api(0).restart().await;
    client.finish("1").await;
    client.expect_pop("order", "2", "ready").await;
    client.delete("3").await;
    // A stop answers the consumers that wait.
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.pop("order", 60).await }
    });
    stack.api(0).wait_for_waiting_consumers(1).await;
    stack.api(0).stop(Duration::from_secs(30)).await;
    assert_eq!(waiting.await.unwrap(), None);
    stack.api(0).restart().await;
    client.finish("2").await;
    assert_eq!(stored_jobs(&stack).await, 0);
    stack.finish().await;
}

#[tokio::test]
async fn without_redis_commands_fail_in_the_form_of_the_protocol() {
    let settings = "[pool.default]\ncommand_timeout = \"300ms\"";
    let YouzanStack { mut stack, client } = YouzanStack::start(settings).await;
    client.add("order", "1", 0, "kept").await;
    stack.redis.kill();
    let add =
        json!({"command": "add", "topic": "order", "id": "2", "delay": 0, "TTR": 60, "body": "x"});
    for command in [
        add.clone(),
        json!({"command": "finish", "id": "1"}),
        json!({"command": "pop", "topic": "order", "timeout": 0}),
    ] {
        let answer = client.command(&command).await;
        assert_eq!(answer["success"], json!(false), "{command}");
        let error = answer["error"].as_str().unwrap();
        assert!(error.starts_with("the storage is unavailable"), "{error}");
    }
    stack.redis.restart().unwrap();
    let added = async || {
        let answer = client.command(&add).await;
        match answer["success"] == json!(true) {
            true => Ok(()),
            false => Err(answer.to_string()),
        }
    };
    eventually("Redis is back", Duration::from_secs(60), added).await;
    client.expect_pop("order", "1", "kept").await;
    client.expect_pop("order", "2", "x").await;
    client.finish("1").await;
    client.finish("2").await;
    stack.finish().await;
}
