//! What clients store is shown as text, wherever it is: it neither runs nor changes a page.

use serde_json::json;

use crate::browser::{Browser, walk};
use crate::fixture::DashboardFixture;

const ATTACKS: [&str; 6] = [
    "<script>window.attacked = 1</script>",
    "<img src=x onerror=\"window.attacked = 1\">",
    "\"><svg onload=window.attacked=1>",
    "' onmouseover='window.attacked=1",
    "</pre></section><h1 id=planted>planted</h1>",
    "javascript:window.attacked=1",
];

/// No attack has run in the page, or added an element to it.
async fn is_unharmed(browser: &Browser, page: &str) {
    for script in [
        "return window.attacked === undefined",
        "return document.getElementById('planted') === null",
    ] {
        assert_eq!(browser.run(script).await, true, "{page}: {script}");
    }
}

/// Stores entries whose names the API would refuse.
async fn plant_names(fixture: &DashboardFixture) {
    let client = redis::Client::open(fixture.stack.redis.url()).unwrap();
    let mut redis = tidegate_testkit::connect_to_redis(&client).await.unwrap();
    for attack in ATTACKS {
        // A name of a relay or a schedule has no slash.
        let name = attack.replace('/', "|");
        for (key, field) in [
            (format!("tg:schedules:{}", fixture.namespace), name.clone()),
            (
                "tg:relays".to_owned(),
                format!("{}/{name}", fixture.namespace),
            ),
            ("tg:keys".to_owned(), attack.to_owned()),
        ] {
            let value = format!("1.00000001 {attack}");
            let set = redis::cmd("HSET").arg(key).arg(field).arg(value).to_owned();
            set.exec_async(&mut redis).await.unwrap();
        }
    }
}

#[tokio::test]
async fn keys_attributes_payloads_and_errors_are_only_text() {
    let fixture = DashboardFixture::new().await;
    let mut ids = Vec::new();
    for attack in ATTACKS {
        let job = json!({"key": attack, "attributes": {"a": attack}, "payload": {"text": attack}, "delay": "1h"});
        ids.push(fixture.publish(&job).await);
        ids.push(fixture.dead_job(attack).await);
    }
    let job = json!({"payload": ATTACKS, "attributes": {"a": ATTACKS[0], "b": ATTACKS[2]}});
    let schedule = json!({"queue": "q", "every": "15m", "job": job});
    let set = fixture.client.call("PUT", "/schedules/attack", &schedule);
    set.await.expect(201);
    let sink = json!({"kind": "rabbitmq", "url": "amqp://rabbit.example:5672", "exchange": ATTACKS[0],
        "routing_key": ATTACKS[2]});
    let relay = json!({"source": {"kind": "queue", "queue": "q"}, "sink": sink});
    let set = fixture.client.call("PUT", "/relays/attack", &relay);
    set.await.expect(201);
    plant_names(&fixture).await;
    let key = json!({"scopes": ["read"], "description": ATTACKS.concat()});
    let http = reqwest::Client::new().post(format!("{}/v1/*/keys", fixture.base()));
    let created = http.body(key.to_string()).send().await.unwrap();
    assert_eq!(created.status(), 201);
    let queue = fixture.queue();
    let schedules = format!("/ui/default/schedules/{}", fixture.namespace);
    let mut pages = vec![
        format!("{schedules}/attack"),
        format!("{schedules}/%3Cscript%3E"),
        format!("/ui/default/schedules?namespace={}", fixture.namespace),
        "/ui/relays".to_owned(),
        "/ui/keys".to_owned(),
        format!("/ui/relays/{}/attack", fixture.namespace),
        "/ui".to_owned(),
        format!("{queue}/jobs"),
        format!("{queue}/dead"),
        queue.clone(),
    ];
    for id in &ids {
        pages.push(format!("{queue}/jobs/{id}"));
        pages.push(format!("{queue}/jobs/{id}/payload"));
    }
    walk("injection", &fixture.base(), async |browser| {
        for page in &pages {
            browser.open_page(page).await;
            is_unharmed(browser, page).await;
            assert_eq!(
                browser
                    .run("return document.querySelectorAll('h1').length")
                    .await,
                1,
                "{page}"
            );
        }
        browser.open_page(&format!("{queue}/dead")).await;
        browser.shows(ATTACKS[0]).await;
        // Blocks that are sent later are text as well.
        browser.open_page(&format!("{queue}/jobs/{}", ids[0])).await;
        browser.shows("Up to date").await;
        browser.shows(ATTACKS[0]).await;
        assert!(browser.run("return window.attacked === undefined").await == true);
    })
    .await;
}

#[tokio::test]
async fn parameters_of_an_address_are_only_text() {
    let fixture = DashboardFixture::new().await;
    fixture.publish(&json!({})).await;
    walk("injection-address", &fixture.base(), async |browser| {
        for attack in ATTACKS {
            let encoded: String = attack.bytes().map(|byte| format!("%{byte:02X}")).collect();
            for page in [
                format!("{}/jobs?key_prefix={encoded}", fixture.queue()),
                format!(
                    "{}/jobs?error_contains={encoded}&cursor={encoded}",
                    fixture.queue()
                ),
                format!("{}?done={encoded}", fixture.queue()),
                format!("/ui/default/queues?contains={encoded}&sort={encoded}&page={encoded}"),
                format!("/ui/default/workers?namespace={encoded}"),
                format!("/ui/{encoded}/queues"),
            ] {
                browser.open_page(&page).await;
                is_unharmed(browser, &page).await;
            }
        }
    })
    .await;
}
