//! The quota of the namespace of the listener.

use serde_json::json;
use tidegate_testkit::eventually;

use crate::fixture::{YouzanStack, stored_jobs};

#[tokio::test]
async fn a_full_namespace_takes_no_new_jobs_and_ends_those_that_it_has() {
    let YouzanStack { stack, client } = YouzanStack::start("").await;
    stack.api(0).set_quota("shop", &json!({"jobs": 2})).await;
    client.add("order", "1", 0, "first").await;
    client.add("order", "2", 3600, "second").await;
    let third =
        json!({"command": "add", "topic": "order", "id": "3", "delay": 0, "TTR": 60, "body": "x"});
    let refused = client.command(&third).await;
    assert_eq!(refused["success"], json!(false), "{refused}");
    let error = refused["error"].as_str().unwrap();
    assert!(error.contains("full"), "{error}");
    assert_eq!(stored_jobs(&stack).await, 2);
    // A job that is there gets a new version.
    client.add("order", "2", 0, "newer").await;
    client.expect_pop("order", "1", "first").await;
    client.finish("1").await;
    let room = async || {
        let answer = client.command(&third).await;
        match answer["success"] == json!(true) {
            true => Ok(()),
            false => Err(answer.to_string()),
        }
    };
    eventually(
        "the namespace has room",
        std::time::Duration::from_secs(20),
        room,
    )
    .await;
    stack.finish().await;
}
