//! The states of relays, as those who set them through the API see them.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, Stack, eventually, free_port};

use crate::endpoint::{ANY_PORT, WebhookEndpoint};
use crate::fixture::{LIMIT, QUEUE, RelayDaemon, RelayedQueue};
use crate::stored::{put, settings};

/// After so long without a report no daemon serves a relay.
const REPORT_TTL: Duration = Duration::from_secs(15);

fn webhook(endpoint: &WebhookEndpoint, networks: &[&str]) -> Value {
    let url = format!("http://{}/hook", endpoint.address);
    json!({
        "source": {"kind": "queue", "queue": QUEUE},
        "sink": {"kind": "webhook", "url": url, "allow_http": true, "allow_networks": networks},
    })
}

/// Waits until a relay is shown with this state, and returns its status.
async fn has_state(queue: &RelayedQueue, relay: &str, state: &str) -> Value {
    let path = format!("/relays/{relay}");
    let mut status = Value::Null;
    eventually("the state of the relay", LIMIT, async || {
        status = queue.native.get(&path).await.expect(200).json()["status"].clone();
        match status["state"] == state {
            true => Ok(()),
            false => Err(status.clone()),
        }
    })
    .await;
    status
}

fn error(status: &Value) -> &str {
    status["last_error"]["text"].as_str().unwrap_or_default()
}

async fn publish(queue: &RelayedQueue, payload: &'static str) {
    let publish = queue.client.publish_raw(QUEUE, payload, "text/plain");
    publish.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_a_relay_follows_its_deliveries_and_its_daemon() {
    let stack = Stack::builder().start().await;
    let queue = RelayedQueue::new(&stack, "states").await;
    let endpoint = WebhookEndpoint::start(ANY_PORT).await;
    let hook = webhook(&endpoint, &["127.0.0.1"]);
    put(&queue, "hook", &hook).await;
    let unserved = has_state(&queue, "hook", "unserved").await;
    let expected = json!({"state": "unserved", "since": null, "last_error": null});
    assert_eq!(unserved, expected);

    let more = "allow_networks = [\"127.0.0.0/8\"]";
    let relay = RelayDaemon::start(&[&settings(&stack, more).await]).await;
    let first = has_state(&queue, "hook", "running").await;
    assert_eq!(first["last_error"], Value::Null);
    publish(&queue, "410").await;
    let failing = has_state(&queue, "hook", "failing").await;
    assert!(error(&failing).contains("410"), "{failing}");
    assert!(failing["since"].as_str() > first["since"].as_str());
    publish(&queue, "fine").await;
    let again = has_state(&queue, "hook", "running").await;
    assert!(again["since"].as_str() > failing["since"].as_str());
    // It stays, so that a failure of a moment is seen.
    assert_eq!(again["last_error"], failing["last_error"]);

    // Other namespaces do not see it.
    let other = NativeClient::new(stack.api(0), "other").await;
    other.get("/relays/hook").await.expect(404);
    let listed = other.get("/relays").await.expect(200).json();
    assert_eq!(listed["items"], json!([]));

    let mut paused = hook.clone();
    paused["paused"] = json!(true);
    put(&queue, "hook", &paused).await;
    has_state(&queue, "hook", "paused").await;
    put(&queue, "hook", &hook).await;
    let resumed = has_state(&queue, "hook", "running").await;
    // A report counts for a time, and is repeated.
    tokio::time::sleep(REPORT_TTL).await;
    assert_eq!(has_state(&queue, "hook", "running").await, resumed);

    relay.daemon.kill();
    let gone = has_state(&queue, "hook", "unserved").await;
    assert!(gone["since"].as_str() > resumed["since"].as_str(), "{gone}");
    let listed = queue.native.get("/relays").await.expect(200).json();
    assert_eq!(listed["items"][0]["status"], gone);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_is_refused_or_reaches_no_broker_says_why() {
    let stack = Stack::builder().start().await;
    let queue = RelayedQueue::new(&stack, "reasons").await;
    let endpoint = WebhookEndpoint::start(ANY_PORT).await;
    let more = "allow_networks = [\"127.0.0.0/8\"]\nallow_hosts = [\"127.0.0.1\"]";
    let relay = RelayDaemon::start(&[&settings(&stack, more).await]).await;
    put(
        &queue,
        "network",
        &webhook(&endpoint, &["127.0.0.1", "10.0.0.0/8"]),
    )
    .await;
    let refused = has_state(&queue, "network", "refused").await;
    assert!(error(&refused).contains("api.allow_networks"), "{refused}");
    put(&queue, "network", &webhook(&endpoint, &["127.0.0.1"])).await;
    let allowed = has_state(&queue, "network", "running").await;
    assert_eq!(allowed["last_error"], Value::Null);
    let deleted = queue.native.send("DELETE", "/relays/network", &[], b"");
    deleted.await.expect(200);
    queue.native.get("/relays/network").await.expect(404);

    // Nothing accepts connections there.
    let broker = format!("127.0.0.1:{}", free_port().unwrap());
    let kafka = json!({
        "source": {"kind": "queue", "queue": "k"},
        "sink": {"kind": "kafka", "url": broker, "topic": "t", "time_limit": "2s"},
    });
    put(&queue, "broker", &kafka).await;
    has_state(&queue, "broker", "running").await;
    let publish = queue.client.publish_raw("k", "fine", "text/plain");
    publish.await.unwrap();
    let failing = has_state(&queue, "broker", "failing").await;
    assert!(error(&failing).starts_with("sink: "), "{failing}");
    relay.daemon.stop(LIMIT).await;
    stack.finish().await;
}
