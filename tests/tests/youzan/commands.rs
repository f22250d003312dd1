//! Each command, in each state of a job.

use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_testkit::{NativeClient, Stack, eventually};

use crate::fixture::{NAMESPACE, YouzanStack, stored_jobs};

#[tokio::test]
async fn a_job_is_added_popped_once_and_finished() {
    let YouzanStack { stack, client } = YouzanStack::start("").await;
    let began_at = Instant::now();
    client.add("order", "17", 2, "body: ü \"<>\" \u{0}").await;
    assert_eq!(client.pop("order", 0).await, None);
    client
        .expect_pop("order", "17", "body: ü \"<>\" \u{0}")
        .await;
    assert!(began_at.elapsed() >= Duration::from_secs(2), "never early");
    assert_eq!(client.pop("order", 0).await, None);
    // A repeated one succeeds, too.
    client.finish("17").await;
    client.finish("17").await;
    client.delete("17").await;
    assert_eq!(stored_jobs(&stack).await, 0);
    let counted = async |labels: &str| {
        let api = stack.api(0);
        api.metric_with_label("tidegate_youzan_commands_total", labels)
            .await
    };
    assert_eq!(counted(r#"command="add",outcome="success""#).await, 1.0);
    assert_eq!(counted(r#"command="pop",outcome="nothing""#).await, 2.0);
    assert_eq!(counted(r#"command="finish",outcome="success""#).await, 2.0);
    let codes = r#"api="/",code="200",method="other",namespace="shop",pool="default""#;
    let api = stack.api(0);
    let answered = api.metric_with_label("infra_lmstfy_http_http_codes", codes);
    assert_eq!(answered.await, 7.0);
    stack.finish().await;
}

#[tokio::test]
async fn an_add_replaces_the_job_with_its_id() {
    let YouzanStack { stack, client } = YouzanStack::start("").await;
    client.add("order", "17", 3600, "first").await;
    client.add("order", "17", 0, "second").await;
    client.add("order", "17", 0, "third").await;
    client.expect_pop("order", "17", "third").await;
    // While it is reserved the new one waits, and a finish ends the run of the old one only.
    client.add("order", "17", 0, "fourth").await;
    assert_eq!(client.pop("order", 0).await, None);
    client.finish("17").await;
    client.expect_pop("order", "17", "fourth").await;
    client.finish("17").await;
    assert_eq!(client.pop("order", 0).await, None);
    assert_eq!(stored_jobs(&stack).await, 0);
    stack.finish().await;
}

/// As in the original, whatever the pumps do with other jobs.
#[tokio::test]
async fn a_job_whose_ttr_ends_is_popped_again_and_again() {
    let few = Stack::builder().pump_config("pump.losses_max = 1");
    let (YouzanStack { stack, client }, _) = YouzanStack::start_with(few, "").await;
    client.add_with_ttr("order", "17", 0, 1, "again").await;
    for _ in 0..4 {
        client.expect_pop("order", "17", "again").await;
    }
    client.finish("17").await;
    assert_eq!(stored_jobs(&stack).await, 0);
    stack.finish().await;
}

#[tokio::test]
async fn a_job_whose_ttr_ends_is_popped_again_until_it_is_dead() {
    let YouzanStack { stack, client } = YouzanStack::start("redeliver_always = false").await;
    client.add_with_ttr("order", "17", 0, 1, "again").await;
    for _ in 0..5 {
        client.expect_pop("order", "17", "again").await;
    }
    // Its TTR ends once more.
    let native = NativeClient::new(stack.api(0), NAMESPACE).await;
    let dead = async || {
        let job = native.get("/queues/order/jobs/key:17").await.expect(200);
        match job.json()["state"].as_str() {
            Some("dead") => Ok(()),
            state => Err(format!("{state:?}")),
        }
    };
    eventually("the job is dead", Duration::from_secs(30), dead).await;
    assert_eq!(client.pop("order", 0).await, None);
    // An add revives it, and a finish after the end of its TTR deletes it.
    client.add_with_ttr("order", "17", 0, 1, "new").await;
    client.expect_pop("order", "17", "new").await;
    client.expect_pop("order", "17", "new").await;
    let ready = async || match stack.totals().await.ready {
        1 => Ok(()),
        other => Err(other),
    };
    eventually("its TTR has ended", Duration::from_secs(30), ready).await;
    client.finish("17").await;
    assert_eq!(client.pop("order", 0).await, None);
    assert_eq!(stored_jobs(&stack).await, 0);
    stack.finish().await;
}

#[tokio::test]
async fn a_job_is_deleted_in_any_state() {
    let YouzanStack { stack, client } = YouzanStack::start("").await;
    client.add("order", "delayed", 3600, "").await;
    client.delete("delayed").await;
    client.add("order", "finished early", 3600, "").await;
    client.finish("finished early").await;
    client.add("order", "ready", 0, "").await;
    client.delete("ready").await;
    client.add("order", "reserved", 0, "old").await;
    client.expect_pop("order", "reserved", "old").await;
    client.add("order", "reserved", 0, "new").await;
    client.delete("reserved").await;
    // Also the version that waited for the end of the TTR.
    client.finish("reserved").await;
    assert_eq!(client.pop("order", 0).await, None);
    assert_eq!(stored_jobs(&stack).await, 0);
    stack.finish().await;
}

#[tokio::test]
async fn a_pop_waits_for_the_first_of_its_topics() {
    let YouzanStack { stack, client } = YouzanStack::start("").await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.pop("order, bill", 60).await }
    });
    stack.api(0).wait_for_waiting_consumers(1).await;
    client.add("bill", "1", 0, "woken").await;
    let expected = Some(("1".to_owned(), "woken".to_owned()));
    assert_eq!(waiting.await.unwrap(), expected);
    client.add("bill", "2", 0, "").await;
    client.add("order", "3", 0, "").await;
    client.expect_pop("order,bill", "3", "").await;
    client.expect_pop("order,bill", "2", "").await;
    // A consumer that hangs up while it waits takes no job.
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.pop("order", 60).await }
    });
    stack.api(0).wait_for_waiting_consumers(1).await;
    waiting.abort();
    stack.api(0).wait_for_waiting_consumers(0).await;
    client.add("order", "4", 0, "").await;
    client.expect_pop("order", "4", "").await;
    stack.finish().await;
}

#[tokio::test]
async fn the_longest_wait_is_that_of_the_settings() {
    let YouzanStack { stack, client } = YouzanStack::start("pop_wait = \"300ms\"").await;
    // Its connection would time out after a minute.
    assert_eq!(client.pop("order", 100_000).await, None);
    let without = json!({"command": "pop", "topic": "order"});
    let answer = client.command(&without).await;
    let nothing = json!({"success": true, "error": "", "id": "", "value": ""});
    assert_eq!(answer, nothing);
    stack.finish().await;
}
