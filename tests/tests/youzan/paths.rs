//! The paths of `ouqiang/delay-queue`, and jobs of the other APIs.

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, connect_to_redis};

use crate::fixture::{NAMESPACE, YouzanClient, YouzanStack, stored_jobs};

/// Sends a request that succeeds, and returns its data.
async fn data(client: &YouzanClient, path: &str, fields: &Value) -> Value {
    let answer = client.post(path, fields).await.expect(200).json();
    assert_eq!(answer["code"], json!(0), "{path} {fields}: {answer}");
    assert_eq!(answer["message"], json!("ok"));
    answer["data"].clone()
}

#[tokio::test]
async fn the_paths_are_the_commands_in_another_form() {
    let YouzanStack { stack, client } = YouzanStack::start("").await;
    let id = json!({"id": "17"});
    let push = |delay_s: u64, body: &str| json!({"topic": "order", "id": "17", "delay": delay_s, "ttr": 90, "body": body});
    assert_eq!(data(&client, "/get", &id).await, Value::Null);
    assert_eq!(data(&client, "/push", &push(3600, "a")).await, Value::Null);
    let mut shown = data(&client, "/get", &id).await;
    let due_s = shown["delay"].take().as_u64().unwrap();
    let redis = redis::Client::open(stack.redis.url()).unwrap();
    let mut redis = connect_to_redis(&redis).await.unwrap();
    let time = redis::cmd("TIME").query_async(&mut redis).await;
    let (now_s, _): (u64, u64) = time.unwrap();
    let in_s = due_s - now_s;
    assert!((3000..=3602).contains(&in_s), "{in_s}");
    let expected = json!({"topic": "order", "id": "17", "delay": null, "ttr": 90, "body": "a"});
    assert_eq!(shown, expected);
    let pop = json!({"topic": "bill,order", "timeout": 30});
    data(&client, "/push", &push(0, "b")).await;
    let popped = data(&client, "/pop", &pop).await;
    assert_eq!(popped, json!({"id": "17", "body": "b"}));
    assert_eq!(data(&client, "/finish", &id).await, Value::Null);
    assert_eq!(data(&client, "/get", &id).await, Value::Null);
    data(&client, "/push", &push(0, "c")).await;
    assert_eq!(data(&client, "/delete", &id).await, Value::Null);
    let empty = json!({"topic": "order", "timeout": 0});
    assert_eq!(data(&client, "/pop", &empty).await, Value::Null);
    stack.finish().await;
}

#[tokio::test]
async fn jobs_are_those_of_the_native_api() {
    let YouzanStack { stack, client } = YouzanStack::start("").await;
    let native = NativeClient::new(stack.api(0), NAMESPACE).await;
    client.add("order", "17", 3600, "x").await;
    let job = native.get("/queues/order/jobs/key:17").await.expect(200);
    assert_eq!(job.json()["key"], json!("17"));
    client.delete("17").await;
    // A job without a key has its job id as id, and is found by it once it was popped.
    let created = native
        .publish("order", "", "not Youzan's")
        .await
        .expect(201);
    let job_id = created.json()["id"].as_str().unwrap().to_owned();
    client.expect_pop("order", &job_id, "not Youzan's").await;
    client.finish(&job_id).await;
    native
        .publish("order", "key=18&if_exists=replace", "keyed")
        .await
        .expect(201);
    client.expect_pop("order", "18", "keyed").await;
    client.finish("18").await;
    assert_eq!(stored_jobs(&stack).await, 0);
    stack.finish().await;
}
