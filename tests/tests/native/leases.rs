//! Leases that are not of a job that the client holds: forged, damaged, old, or of another namespace.

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, Stack};

/// The outcomes of each verb for one lease.
async fn outcomes(client: &NativeClient, lease: &str) -> Vec<Value> {
    let mut outcomes = Vec::new();
    for verb in ["ack", "touch", "release"] {
        let settled = client.settle(verb, &json!({"leases": [lease]})).await;
        outcomes.extend(settled.iter().map(|it| it["outcome"].clone()));
    }
    let failed = json!({"leases": [{"lease": lease, "error": "no"}]});
    let settled = client.settle("fail", &failed).await;
    outcomes.extend(settled.iter().map(|it| it["outcome"].clone()));
    outcomes
}

#[tokio::test]
async fn a_lease_that_the_client_does_not_hold_changes_nothing() {
    let stack = Stack::builder().pumps(0).start().await;
    let api = stack.api(0);
    let (client, other) = (
        NativeClient::new(api, "shop").await,
        NativeClient::new(api, "other").await,
    );
    client.publish("q", "", "x").await.expect(201);
    other.publish("q", "", "x").await.expect(201);
    let job = client.reserve("q", 1).await.remove(0);
    let lease = job["lease"].as_str().unwrap();
    let id = job["id"].as_str().unwrap();
    let gone = json!(vec!["gone"; 4]);
    for forged in [format!("{id}.1.another"), format!("{}.1.q", "0".repeat(26))] {
        assert_eq!(json!(outcomes(&client, &forged).await), gone, "{forged}");
    }
    assert_eq!(json!(outcomes(&other, lease).await), gone);
    // A later attempt than any that was delivered, and the right one after it has ended.
    let later = format!("{id}.2.q");
    let lost = json!(vec!["lost"; 4]);
    assert_eq!(json!(outcomes(&client, &later).await), lost);
    assert_eq!(
        client.settle("ack", &json!({"leases": [lease]})).await,
        [json!({"outcome": "done"})]
    );
    assert_eq!(json!(outcomes(&client, lease).await), gone);
    let held = other.get("/queues/q").await.expect(200).json();
    assert_eq!(held["jobs"]["ready"], 1);
    let malformed = [
        format!("{id}.1"),
        format!("{id}..q"),
        format!("{id}.0.q"),
        format!("{id}.+1.q"),
        format!("{id}.99999999999.q"),
        lease[1..].to_owned(),
        lease[..lease.len() - 1].to_owned(),
    ];
    let malformed = malformed.iter().map(String::as_str);
    for text in malformed.chain(["x", "", " ", "a\nb"]) {
        let body = json!({"leases": [text]});
        let refused = client.call("POST", "/ack", &body).await.expect(400).json();
        assert_eq!(refused["code"], "invalid_parameter", "{text:?}");
    }
    stack.finish().await;
}
