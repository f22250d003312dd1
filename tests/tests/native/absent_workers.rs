//! Workers that ask no more. Named so that this test, which lasts a minute, is the first one that is started.

use std::time::Duration;

use serde_json::json;
use tidegate_testkit::{NativeClient, Stack};

use crate::workers::{expect, lease, workers};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_gone_is_listed_for_a_minute() {
    let stack = Stack::builder().apis(2).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let there = NativeClient::with_key(stack.api(1), "shop", client.key());
    // Its lease ends at another server, long before its end.
    client.publish("q", "", "x").await.expect(201);
    let held = lease(&client, "gone", "30m").await;
    there
        .settle("ack", &json!({"leases": [held["lease"]]}))
        .await;
    client.publish("q", "", "y").await.expect(201);
    lease(&client, "busy", "30m").await;
    expect(&client, &[("busy", 1), ("gone", 0)]).await;
    tokio::time::sleep(Duration::from_secs(62)).await;
    assert_eq!(workers(&client).await, [("busy".to_owned(), 1)]);
    stack.finish().await;
}
