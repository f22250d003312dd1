//! The pages of relays, and each of their buttons.

use serde_json::{Value, json};

use crate::browser::walk;
use crate::fixture::DashboardFixture;

const SECRET: &str = "whsec_aHVudGVyMg==";

/// A relay whose webhook has a secret in its path, too.
fn webhook() -> Value {
    let sink = json!({"kind": "webhook", "url": "https://hooks.example/services/T0/hunter2?k=hunter3", "secret": SECRET});
    json!({"source": {"kind": "queue", "queue": "q"}, "sink": sink})
}

async fn set(fixture: &DashboardFixture, relay: &Value) {
    let set = fixture.client.call("PUT", "/relays/hook", relay).await;
    assert!([200, 201].contains(&set.status), "{}", set.status);
}

async fn shown(fixture: &DashboardFixture) -> Value {
    fixture.client.get("/relays/hook").await.expect(200).json()
}

/// Reports the state of the relay, as its daemon does.
async fn report(fixture: &DashboardFixture, state: &str, error: &str) {
    let at = "2026-11-21T12:30:00.000Z";
    let status = json!({"state": state, "since": at, "last_error": {"text": error, "at": at}});
    let relay = format!("{}/hook", fixture.namespace);
    let item =
        json!({"relay": relay, "revision": shown(fixture).await["revision"], "status": status});
    let url = format!("{}/relays/reports", fixture.base());
    let body = json!({"process": 1, "items": [item]}).to_string();
    let sent = reqwest::Client::new().put(url).body(body).send().await;
    assert_eq!(sent.unwrap().status(), 204);
}

fn page(fixture: &DashboardFixture) -> String {
    format!("/ui/relays/{}/hook", fixture.namespace)
}

#[tokio::test]
async fn a_relay_is_paused_and_resumed_and_keeps_its_secrets_to_itself() {
    let fixture = DashboardFixture::new().await;
    set(&fixture, &webhook()).await;
    fixture.publish(&json!({})).await;
    fixture.publish(&json!({})).await;
    // The daemons of relays reserve jobs under this name.
    let body = json!({"queues": ["q"], "worker": "relay:hook"});
    let reserved = fixture.client.call("POST", "/reserve", &body);
    reserved.await.expect(200);
    let stored = async || {
        let url = format!("{}/relays", fixture.base());
        let all = reqwest::get(url).await.unwrap().text().await.unwrap();
        let all: Value = serde_json::from_str(&all).unwrap();
        let mut items = all["items"].as_array().unwrap().iter();
        let own = items.find(|it| it["namespace"] == fixture.namespace.as_str());
        own.unwrap()["config"].clone()
    };
    let before = stored().await;
    assert_eq!(before["sink"]["secret"], SECRET);
    walk("relay-pause", &fixture.base(), async |browser| {
        let is_silent = async || {
            let source = browser.run("return document.documentElement.outerHTML");
            let source = source.await.to_string();
            for secret in ["hunter", "aHVudGVyMg"] {
                assert!(!source.contains(secret), "{secret} is in {source}");
            }
        };
        browser.open_page("/ui/relays").await;
        browser.shows("webhook hooks.example").await;
        browser.shows("no daemon").await;
        report(&fixture, "failing", "sink: status 500: <b>sorry</b>").await;
        browser.shows("failing").await;
        is_silent().await;
        browser.press(&format!("{}/hook", fixture.namespace)).await;
        browser.shows("sink.secret").await;
        browser.shows("sink: status 500: <b>sorry</b>").await;
        browser.shows("since 2026-11-21T12:30:00.000Z").await;
        browser.shows("hold 1 job").await;
        browser.shows("1 ready, the oldest").await;
        is_silent().await;
        browser.press("Pause the relay").await;
        browser.shows("The relay is paused").await;
        let mut paused = before.clone();
        paused["paused"] = true.into();
        assert_eq!(stored().await, paused);
        browser.press("Resume the relay").await;
        browser.shows("The relay runs again").await;
        is_silent().await;
        assert_eq!(stored().await, before);
        browser.press(&format!("{}/q", fixture.namespace)).await;
        browser.shows("Why jobs wait").await;
    })
    .await;
}

#[tokio::test]
async fn a_page_that_is_out_of_date_changes_no_newer_relay() {
    let fixture = DashboardFixture::new().await;
    set(&fixture, &webhook()).await;
    walk("relay-stale", &fixture.base(), async |browser| {
        browser.open_page(&page(&fixture)).await;
        browser.shows("Up to date").await;
        let mut newer = webhook();
        newer["concurrency"] = 7.into();
        set(&fixture, &newer).await;
        browser.shows("The relay has been changed").await;
        browser.press("Pause the relay").await;
        browser.shows("your page was out of date").await;
        let config = shown(&fixture).await["config"].clone();
        assert_eq!(config["paused"], false);
        assert_eq!(config["concurrency"], 7);
        let deleted = fixture.client.send("DELETE", "/relays/hook", &[], b"");
        deleted.await.expect(200);
        browser.press("Pause the relay").await;
        browser.shows("There is no such relay").await;
    })
    .await;
}
