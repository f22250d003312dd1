//! An id that is added with another topic.

use serde_json::json;
use tidegate_testkit::NativeClient;

use crate::fixture::{NAMESPACE, YouzanStack, stored_jobs};

#[tokio::test]
async fn an_id_has_one_job_whatever_its_topic() {
    let YouzanStack { stack, client } = YouzanStack::start("").await;
    client.add("order", "17", 3600, "old").await;
    client.add("bill", "17", 0, "new").await;
    assert_eq!(stored_jobs(&stack).await, 1);
    client.expect_pop("order,bill", "17", "new").await;
    // The job that is reserved stays until it is finished.
    client.add("order", "17", 0, "newest").await;
    client.finish("17").await;
    assert_eq!(stored_jobs(&stack).await, 1);
    client.expect_pop("bill,order", "17", "newest").await;
    client.finish("17").await;
    assert_eq!(stored_jobs(&stack).await, 0);
    stack.finish().await;
}

/// 支付宝 is the example of the article that describes the protocol.
#[tokio::test]
async fn a_topic_has_any_characters() {
    let YouzanStack { stack, client } = YouzanStack::start("").await;
    for (topic, queue) in [
        ("支付宝", "utf8-_e6_94_af_e4_bb_98_e5_ae_9d"),
        ("order.paid/v1", "utf8-order_2epaid_2fv1"),
        ("utf8-x", "utf8-utf8-x"),
    ] {
        client.add(topic, "17", 0, "paid").await;
        assert_eq!(stack.queue_in(NAMESPACE, queue).await.size().await, 1);
        let shown = client.post("/get", &json!({"id": "17"})).await.expect(200);
        assert_eq!(shown.json()["data"]["topic"], json!(topic));
        client
            .expect_pop(&format!("none,{topic}"), "17", "paid")
            .await;
        client.finish("17").await;
        assert_eq!(stored_jobs(&stack).await, 0);
    }
    stack.finish().await;
}

#[tokio::test]
async fn each_finish_ends_one_run_and_no_version_that_was_not_popped() {
    let YouzanStack { stack, client } = YouzanStack::start("").await;
    // In one topic, with a finish that is repeated.
    client.add("order", "1", 0, "first").await;
    client.expect_pop("order", "1", "first").await;
    client.add("order", "1", 0, "second").await;
    client.finish("1").await;
    client.finish("1").await;
    client.expect_pop("order", "1", "second").await;
    client.finish("1").await;
    assert_eq!(stored_jobs(&stack).await, 0);
    // Two runs of an id at a time, in two topics.
    client.add("order", "2", 0, "first").await;
    client.expect_pop("order", "2", "first").await;
    client.add("bill", "2", 0, "second").await;
    client.expect_pop("bill", "2", "second").await;
    client.finish("2").await;
    assert_eq!(stored_jobs(&stack).await, 1);
    client.finish("2").await;
    assert_eq!(stored_jobs(&stack).await, 0);
    stack.finish().await;
}

#[tokio::test]
async fn a_topic_that_accepts_nothing_loses_no_job() {
    let YouzanStack { stack, client } = YouzanStack::start("").await;
    let native = NativeClient::new(stack.api(0), NAMESPACE).await;
    let closed = json!({"closed": true});
    let change = native.call("PATCH", "/queues/closed/policy", &closed);
    change.await.expect(200);
    client.add("order", "17", 0, "kept").await;
    let mut add = json!({"command": "add", "topic": "closed", "id": "17", "delay": 0, "TTR": 60, "body": "new"});
    // Policies are effective within a second.
    let refused = async || {
        let answer = client.command(&add).await;
        match answer["error"].as_str() {
            Some(error) if error.contains("its queue is closed") => Ok(()),
            _ => Err(answer.to_string()),
        }
    };
    let limit = std::time::Duration::from_secs(30);
    tidegate_testkit::eventually("the queue is closed", limit, refused).await;
    // It may have been stored in the closed queue before.
    add["topic"] = json!("order");
    add["body"] = json!("kept");
    client.done(add.clone()).await;
    client.expect_pop("order", "17", "kept").await;
    // The old topic was not forgotten.
    add["topic"] = json!("closed");
    assert_eq!(client.command(&add).await["success"], json!(false));
    client.finish("17").await;
    assert_eq!(stored_jobs(&stack).await, 0);
    stack.finish().await;
}
