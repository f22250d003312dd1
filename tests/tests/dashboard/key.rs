//! The pages of API keys, and each of their buttons.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_core::v1::values::Timestamp;
use tidegate_testkit::{NativeClient, eventually};

use crate::browser::{Browser, walk};
use crate::fixture::DashboardFixture;

/// Fills in the form that creates a key.
async fn fill_in(browser: &Browser, fields: &[(&str, &str)], scopes: &[&str]) {
    browser.open_page("/ui/keys").await;
    for (name, value) in fields {
        browser.fill(name, value).await;
    }
    for scope in scopes {
        let check = format!("input[name='scope'][value='{scope}']");
        browser.find(&check).await.click().await.unwrap();
    }
    browser.press("Create the key").await;
}

/// The key with this description, as the admin port lists it.
async fn listed(fixture: &DashboardFixture, description: &str) -> Option<Value> {
    let url = format!("{}/v1/*/keys?limit=1000", fixture.base());
    let all = reqwest::get(url).await.unwrap().text().await.unwrap();
    let all: Value = serde_json::from_str(&all).unwrap();
    let mut keys = all["items"].as_array().unwrap().iter();
    keys.find(|key| key["description"] == description).cloned()
}

#[tokio::test]
async fn a_key_is_created_and_its_secret_is_shown_once() {
    let fixture = DashboardFixture::new().await;
    let description = format!("billing of {}", fixture.namespace);
    walk("key-create", &fixture.base(), async |browser| {
        let fields = [
            ("description", description.as_str()),
            ("namespace", &fixture.namespace),
            ("expires_in", "90d"),
        ];
        fill_in(browser, &fields, &["publish", "read"]).await;
        browser.shows("It is not shown again").await;
        browser.is_accessible("key created").await;
        let secret = browser.texts("#secret").await.remove(0);
        let client = NativeClient::with_key(fixture.stack.api(0), &fixture.namespace, &secret);
        client
            .call("POST", "/queues/q/jobs", &json!(1))
            .await
            .expect(201);
        let body = json!({"queues": ["q"]});
        let reserve = client.call("POST", "/reserve", &body).await;
        assert_eq!(reserve.status, 403);
        let key = listed(&fixture, &description).await.unwrap();
        assert_eq!(key["scopes"], json!(["publish", "read"]));
        let days = |name: &str| {
            let time: Timestamp = key[name].as_str().unwrap().parse().unwrap();
            time.as_ms() / 86_400_000
        };
        assert_eq!(days("expires_at") - days("created_at"), 90);
        browser.press("Back to the keys").await;
        browser.shows(&description).await;
        for page in ["/ui/keys", "/ui"] {
            browser.open_page(page).await;
            let source = browser.run("return document.documentElement.outerHTML");
            assert!(!source.await.to_string().contains(&secret), "{page}");
        }
        // Not even the log has it.
        let log = eventually("it is logged", Duration::from_secs(20), async || {
            let log = fixture.stack.api(0).log();
            let is_there = log
                .lines()
                .any(|line| line.contains("an operator acted") && line.contains(&description));
            if is_there { Ok(log) } else { Err("not yet") }
        });
        let log = log.await;
        let hidden = secret.rsplit('_').next().unwrap();
        assert!(!log.contains(hidden));
    })
    .await;
}

#[tokio::test]
async fn a_key_that_is_not_valid_is_not_created() {
    let fixture = DashboardFixture::new().await;
    let description = format!("wrong of {}", fixture.namespace);
    walk("key-wrong", &fixture.base(), async |browser| {
        for (namespace, expires_in, scopes, problem) in [
            ("shop", "", [].as_slice(), "at least one scope"),
            ("shop", "soon", &["read"], "expires_in"),
            ("a b", "", &["read"], "namespace"),
        ] {
            let fields = [
                ("description", description.as_str()),
                ("namespace", namespace),
                ("expires_in", expires_in),
            ];
            fill_in(browser, &fields, scopes).await;
            browser.shows("Not valid").await;
            browser.shows(problem).await;
        }
        assert_eq!(listed(&fixture, &description).await, None);
    })
    .await;
}

/// Creates a key through the API. Returns its id and its secret.
async fn new_key(fixture: &DashboardFixture, description: &str) -> (String, String) {
    let body = json!({"scopes": ["read"], "description": description});
    let created = fixture.client.call("POST", "/keys", &body).await;
    let created = created.expect(201).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&created["key"]["id"]), text(&created["secret"]))
}

/// Presses the button that revokes a key, up to the question.
async fn ask_to_revoke(browser: &Browser, id: &str) {
    browser.open_page("/ui/keys").await;
    let button = format!("form:has(input[value='{id}']) button");
    browser.find(&button).await.click().await.unwrap();
    browser.shows("A revoked key cannot be brought back.").await;
    browser.shows(id).await;
}

#[tokio::test]
async fn a_key_is_revoked_once_that_is_confirmed() {
    let fixture = DashboardFixture::new().await;
    let description = format!("old of {}", fixture.namespace);
    let (id, secret) = new_key(&fixture, &description).await;
    let client = NativeClient::with_key(fixture.stack.api(0), &fixture.namespace, &secret);
    client.get("/queues/q").await.expect(200);
    walk("key-revoke", &fixture.base(), async |browser| {
        ask_to_revoke(browser, &id).await;
        browser.shows(&description).await;
        browser.is_accessible("key, revoke").await;
        browser.press("Leave it").await;
        browser.shows("Create an API key").await;
        assert!(listed(&fixture, &description).await.is_some());
        ask_to_revoke(browser, &id).await;
        browser.press("Revoke it").await;
        browser.shows("The key is revoked").await;
        assert_eq!(client.get("/queues/q").await.status, 401);
        assert_eq!(listed(&fixture, &description).await, None);
        // Of two people who revoke a key, one is the second.
        let (id, _) = new_key(&fixture, &description).await;
        ask_to_revoke(browser, &id).await;
        let path = format!("/keys/{id}");
        let deleted = fixture.client.send("DELETE", &path, &[], b"").await;
        deleted.expect(200);
        browser.press("Revoke it").await;
        browser.shows("there is no such key any more").await;
    })
    .await;
}
