//! Two calls about one job at the same time: whichever comes first, the answers agree with each other and with the job.

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, Stack, print_figure};
use tokio::join;

const ROUNDS: usize = 60;

/// A job is ready, and is moved to a later time while a worker reserves it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_meets_a_delivery_is_made_or_refused() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let (mut changed, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let queue = format!("q{}", round % 7);
        client
            .publish(&queue, &format!("key={round}"), "x")
            .await
            .expect(201);
        let path = format!("/queues/{queue}/jobs/key:{round}");
        let (later, now) = (
            json!({"delay": "1h"}),
            json!({"queues": [queue], "max_jobs": 1}),
        );
        let (change, reserve) = join!(
            client.call("PATCH", &path, &later),
            client.call("POST", "/reserve", &now)
        );
        let reserved = reserve.expect(200).json()["jobs"].as_array().unwrap().len();
        match change.status {
            200 => {
                changed += 1;
                assert_eq!((reserved, &change.json()["state"]), (0, &json!("delayed")));
            }
            _ => {
                refused += 1;
                assert_eq!(change.expect(409).json()["code"], "job_running");
                assert_eq!(reserved, 1);
            }
        }
        let shown = client.get(&path).await.expect(200).json();
        let state = ["delayed", "leased"][reserved];
        assert_eq!(shown["state"], state);
        let cancel = format!("{path}?running=revoke");
        client.send("DELETE", &cancel, &[], b"").await.expect(200);
    }
    print_figure(&format!(
        "{changed} changes before, {refused} after the delivery"
    ));
    stack.finish().await;
}

/// A job is replaced while its worker acknowledges it: the new content runs, once, as a rerun or as a new job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replacement_that_meets_an_ack_runs_once() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let (mut reruns, mut created) = (0, 0);
    for round in 0..ROUNDS {
        let options = format!("key={round}&if_exists=replace");
        client.publish("q", &options, "old").await.expect(201);
        let first = client.reserve("q", 1).await.remove(0);
        let leases = json!({"leases": [first["lease"]]});
        let (replaced, acked) = join!(
            client.publish("q", &options, "new"),
            client.settle("ack", &leases)
        );
        let outcomes = (
            replaced.json()["outcome"].clone(),
            acked[0]["outcome"].clone(),
        );
        match outcomes.0.as_str().unwrap() {
            "rerun" => {
                reruns += 1;
                assert_eq!(outcomes.1, "rerun");
            }
            other => {
                created += 1;
                assert_eq!((other, &outcomes.1), ("created", &json!("done")));
            }
        }
        let second = client.reserve("q", 1).await.remove(0);
        let payload: &Value = &second["payload_base64"];
        assert_eq!(payload, "bmV3", "the content of the replacement: {second}");
        let is_same = second["id"] == first["id"];
        assert_eq!(is_same, outcomes.0 == "rerun");
        let leases = json!({"leases": [second["lease"]]});
        let acked = client.settle("ack", &leases).await;
        assert_eq!(acked, [json!({"outcome": "done"})]);
    }
    print_figure(&format!("{reruns} reruns, {created} new jobs"));
    let held = client.get("/queues/q").await.expect(200).json();
    assert_eq!(held["jobs"]["ready"], 0);
    stack.finish().await;
}
