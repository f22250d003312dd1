//! Relays that are set through the API.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, RedisControl, Stack, eventually, free_port};

use crate::endpoint::{ANY_PORT, WebhookEndpoint};
use crate::fixture::{LIMIT, QUEUE, RelayDaemon, RelayedQueue};

/// Settings of a daemon that runs the relays of an API.
pub(crate) async fn settings(stack: &Stack, more: &str) -> String {
    let api = stack.api(0);
    let key = NativeClient::with_scopes(api, "*", &["consume"]).await;
    let (url, admin_url, key) = (api.url(), api.admin_url(), key.key());
    format!(
        "[api]\nurl = \"{url}\"\napi_key = \"{key}\"\n{more}\n[api.admin]\nurl = \"{admin_url}\"\n"
    )
}

fn webhook(endpoint: &WebhookEndpoint) -> Value {
    json!({
        "source": {"kind": "queue", "queue": QUEUE},
        "sink": {
            "kind": "webhook", "url": format!("http://{}/hook", endpoint.address), "allow_http": true,
            "allow_networks": ["127.0.0.1"], "secret": "whsec_aHVudGVyMg==",
        },
    })
}

pub(crate) async fn put(queue: &RelayedQueue, name: &str, relay: &Value) {
    let answer = queue
        .native
        .call("PUT", &format!("/relays/{name}"), relay)
        .await;
    assert!([200, 201].contains(&answer.status), "{answer}");
}

/// Waits until the daemon shows these relays, and these as refused.
pub(crate) async fn shows(relay: &RelayDaemon, running: &[&str], refused: &[&str]) {
    let names = |list: &Value| -> Vec<String> {
        let items = list.as_array().unwrap().iter();
        items
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    };
    eventually("the relays run", LIMIT, async || {
        let status = relay.all_status().await;
        match names(&status["items"]) == running && names(&status["refused"]) == refused {
            true => Ok(()),
            false => Err(status),
        }
    })
    .await;
}

async fn receives(endpoint: &WebhookEndpoint, count: usize) {
    eventually(
        "the webhook gets the jobs",
        LIMIT,
        async || match endpoint.received().len() {
            received if received == count => Ok(()),
            received => Err(received),
        },
    )
    .await;
}

/// The list of workers has one with this name.
async fn is_listed(queue: &RelayedQueue, worker: &str) {
    eventually("the relay is listed", LIMIT, async || {
        let page = queue.native.get("/workers").await.expect(200).json();
        match page["items"][0]["worker"] == worker {
            true => Ok(()),
            false => Err(page),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn relays_of_the_api_run_change_and_end_without_a_restart() {
    let stack = Stack::builder().start().await;
    let queue = RelayedQueue::new(&stack, "stored").await;
    let more = "allow_networks = [\"127.0.0.0/8\"]";
    let relay = RelayDaemon::start(&[&settings(&stack, more).await]).await;
    let (first, second) = (
        WebhookEndpoint::start(ANY_PORT).await,
        WebhookEndpoint::start(ANY_PORT).await,
    );
    shows(&relay, &[], &[]).await;
    put(&queue, "orders", &webhook(&first)).await;
    queue.publish(0..20).await;
    receives(&first, 20).await;
    shows(&relay, &["stored/orders"], &[]).await;
    is_listed(&queue, "relay:orders").await;
    assert!(!relay.all_status().await.to_string().contains("hunter2"));

    put(&queue, "orders", &webhook(&second)).await;
    queue.drained().await;
    eventually("the new endpoint is used", LIMIT, async || {
        let status = relay.status().await;
        let address = second.address.to_string();
        if status["sink"].as_str().unwrap().contains(&address) {
            Ok(())
        } else {
            Err(status)
        }
    })
    .await;
    // The relay before it may hold a reserve that is answered with a job; it finishes what it has.
    queue.publish(20..40).await;
    queue.drained().await;
    assert_eq!(first.received().len() + second.received().len(), 40);

    let mut paused = webhook(&second);
    paused["paused"] = json!(true);
    put(&queue, "orders", &paused).await;
    shows(&relay, &[], &[]).await;
    put(&queue, "orders", &webhook(&second)).await;
    shows(&relay, &["stored/orders"], &[]).await;

    // While the API is away, relays run as last read.
    stack.api(0).kill();
    eventually("the source fails", LIMIT, async || {
        let status = relay.status().await;
        if status["last_error"]["text"].to_string().contains("source") {
            Ok(())
        } else {
            Err(status)
        }
    })
    .await;
    shows(&relay, &["stored/orders"], &[]).await;
    stack.api(0).restart().await;
    queue.publish(40..50).await;
    queue.drained().await;

    queue
        .native
        .send("DELETE", "/relays/orders", &[], b"")
        .await
        .expect(200);
    shows(&relay, &[], &[]).await;
    eventually("its metrics are removed", LIMIT, async || {
        let metrics = relay.daemon.metrics().await;
        if metrics.contains("stored/orders") {
            Err(metrics)
        } else {
            Ok(())
        }
    })
    .await;
    queue.publish(50..51).await;
    assert_eq!(queue.counts(QUEUE).await["ready"], 1);
    relay.daemon.stop(LIMIT).await;
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_of_the_api_reaches_only_hosts_and_networks_that_the_settings_allow() {
    let stack = Stack::builder().start().await;
    let queue = RelayedQueue::new(&stack, "guarded").await;
    let more = "allow_hosts = [\"nats.example\"]";
    let relay = RelayDaemon::start(&[&settings(&stack, more).await]).await;
    let endpoint = WebhookEndpoint::start(ANY_PORT).await;
    let nats = |host: &str| {
        json!({
            "source": {"kind": "queue", "queue": QUEUE},
            "sink": {"kind": "nats", "url": format!("nats://{host}:4222"), "subject": "s"},
        })
    };
    put(&queue, "a-webhook", &webhook(&endpoint)).await;
    put(&queue, "allowed", &nats("nats.example")).await;
    put(&queue, "other", &nats("127.0.0.1")).await;
    let mut lmstfy = nats("nats.example");
    lmstfy["source"] = json!({
        "kind": "lmstfy", "url": "http://127.0.0.1:7777", "namespace": "n", "queue": "q", "token": "t",
    });
    put(&queue, "source", &lmstfy).await;
    let refused = ["guarded/a-webhook", "guarded/other", "guarded/source"];
    shows(&relay, &["guarded/allowed"], &refused).await;
    let status = relay.all_status().await;
    for (index, reason) in ["allow_networks", "api.allow_hosts", "source.url"]
        .iter()
        .enumerate()
    {
        assert!(
            status["refused"][index]["reason"]
                .as_str()
                .unwrap()
                .contains(reason),
            "{status}"
        );
    }
    assert!(endpoint.received().is_empty());
    relay.daemon.stop(LIMIT).await;
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_the_api_cannot_read_runs_as_last_read() {
    let stack = Stack::builder().start().await;
    let queue = RelayedQueue::new(&stack, "damaged").await;
    let more = "allow_networks = [\"127.0.0.0/8\"]";
    let relay = RelayDaemon::start(&[&settings(&stack, more).await]).await;
    let endpoint = WebhookEndpoint::start(ANY_PORT).await;
    put(&queue, "orders", &webhook(&endpoint)).await;
    shows(&relay, &["damaged/orders"], &[]).await;
    let mut redis = RedisControl::connect(&stack.redis.url()).await;
    for name in ["orders", "unknown"] {
        let field = format!("damaged/{name}");
        redis.set_field("tg:relays", &field, "damaged").await;
    }
    put(&queue, "other", &webhook(&endpoint)).await;
    let running = ["damaged/orders", "damaged/other"];
    shows(&relay, &running, &["damaged/unknown"]).await;
    relay.daemon.stop(LIMIT).await;
    stack.finish().await;
}

/// A daemon with a relay of one job at a time, whose webhook does not answer the job that it holds. A time limit of 10
/// s ends that. The time of grace is for a stop of the process.
struct SilentDelivery {
    stack: Stack,
    queue: RelayedQueue,
    relay: RelayDaemon,
    endpoint: WebhookEndpoint,
    definition: Value,
}

impl SilentDelivery {
    async fn start(namespace: &str) -> Self {
        let stack = Stack::builder().start().await;
        let queue = RelayedQueue::new(&stack, namespace).await;
        let more = "allow_networks = [\"127.0.0.0/8\"]";
        let grace = "stop_grace = \"100ms\"\n";
        let relay = RelayDaemon::start(&[grace, &settings(&stack, more).await]).await;
        let endpoint = WebhookEndpoint::start(ANY_PORT).await;
        let mut definition = webhook(&endpoint);
        definition["concurrency"] = json!(1);
        let delivery = Self {
            stack,
            queue,
            relay,
            endpoint,
            definition,
        };
        delivery.put().await;
        delivery.publish("silent").await;
        receives(&delivery.endpoint, 1).await;
        delivery
    }

    async fn put(&self) {
        put(&self.queue, "orders", &self.definition).await;
    }

    async fn publish(&self, payload: &'static str) {
        let publish = self.queue.client.publish_raw(QUEUE, payload, "text/plain");
        publish.await.unwrap();
    }

    async fn end(self) {
        self.relay.daemon.kill();
        self.stack.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_relay_is_replaced_when_its_deliveries_have_ended() {
    let mut delivery = SilentDelivery::start("replaced").await;
    delivery.definition["breaker_failures"] = json!(7);
    delivery.put().await;
    delivery.publish("fine").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let received = delivery.endpoint.received().len();
    assert_eq!(received, 1, "more than one job is held");
    delivery.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_relay_that_is_set_again_runs_when_its_deliveries_have_ended() {
    let delivery = SilentDelivery::start("again").await;
    for _ in 0..2 {
        let native = &delivery.queue.native;
        let removed = native.send("DELETE", "/relays/orders", &[], b"").await;
        removed.expect(200);
        shows(&delivery.relay, &[], &[]).await;
        delivery.put().await;
        shows(&delivery.relay, &["again/orders"], &[]).await;
    }
    delivery.publish("fine").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let received = delivery.endpoint.received().len();
    assert_eq!(received, 1, "more than one job is held");
    receives(&delivery.endpoint, 2).await;
    let metrics = delivery.relay.daemon.metrics().await;
    assert!(metrics.contains("relay=\"again/orders\""), "{metrics}");
    delivery.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_replaces_one_whose_breaker_is_open_shows_a_closed_breaker() {
    let stack = Stack::builder().start().await;
    let queue = RelayedQueue::new(&stack, "reopened").await;
    let more = "allow_networks = [\"127.0.0.0/8\"]";
    let relay = RelayDaemon::start(&[&settings(&stack, more).await]).await;
    let endpoint = WebhookEndpoint::start(ANY_PORT).await;
    let mut definition = webhook(&endpoint);
    drop(endpoint);
    // Nothing accepts connections there.
    let url = format!("http://127.0.0.1:{}/hook", free_port().unwrap());
    definition["sink"]["url"] = json!(url);
    definition["breaker_failures"] = json!(1);
    put(&queue, "orders", &definition).await;
    queue.publish(0..1).await;
    let shows = async |source: &str, gauge: &str| {
        let line = format!("tidegate_relay_breaker_open{{relay=\"reopened/orders\"}} {gauge}\n");
        eventually("the gauge", LIMIT, async || {
            let (status, metrics) = (relay.status().await, relay.daemon.metrics().await);
            let is_source = status["source"].to_string().contains(source);
            match is_source && metrics.contains(&line) {
                true => Ok(()),
                false => Err(format!("{status}\n{metrics}")),
            }
        })
        .await;
    };
    shows("reopened/q", "1").await;
    // It has no job with which the new relay could find out that the sink is available.
    definition["source"]["queue"] = json!("empty");
    put(&queue, "orders", &definition).await;
    shows("reopened/empty", "0").await;
    relay.daemon.stop(LIMIT).await;
    stack.finish().await;
}
