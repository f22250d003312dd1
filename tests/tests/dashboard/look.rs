//! How pages look: dark and light, on a phone, and for people who use a keyboard or a screen reader.

use serde_json::json;

use crate::browser::walk;
use crate::fixture::DashboardFixture;

/// All kinds of pages, with something on each.
async fn pages(fixture: &DashboardFixture) -> Vec<(&'static str, String)> {
    let queue = fixture.queue();
    let delayed = fixture
        .publish(&json!({"key": "order-17", "delay": "1h", "attributes": {"tenant": "a"}}))
        .await;
    let dead = fixture
        .dead_job("smtp: 550 a long error ".repeat(20).trim())
        .await;
    for _ in 0..5 {
        fixture.publish(&json!({})).await;
    }
    fixture.reserve().await;
    let schedule = json!({"queue": "q", "every": "15m", "job": {"payload": 1}});
    let set = fixture
        .client
        .call("PUT", "/schedules/often", &schedule)
        .await;
    set.expect(201);
    let sink = json!({"kind": "nats", "url": "nats://nats.example:4222", "subject": "shop.orders", "token": "t"});
    let relay = json!({"source": {"kind": "queue", "queue": "q"}, "sink": sink});
    let set = fixture.client.call("PUT", "/relays/hook", &relay).await;
    set.expect(201);
    vec![
        ("overview", "/ui".to_owned()),
        ("queues", "/ui/default/queues".to_owned()),
        ("queue", queue.clone()),
        ("jobs", format!("{queue}/jobs")),
        ("jobs-none", format!("{queue}/jobs?key_prefix=none")),
        ("job", format!("{queue}/jobs/{delayed}")),
        ("job-dead", format!("{queue}/jobs/{dead}?done=changed")),
        ("payload", format!("{queue}/jobs/{delayed}/payload")),
        ("dead", format!("{queue}/dead")),
        (
            "workers",
            format!("/ui/default/workers?namespace={}", fixture.namespace),
        ),
        (
            "schedules",
            format!("/ui/default/schedules?namespace={}", fixture.namespace),
        ),
        (
            "schedule",
            format!("/ui/default/schedules/{}/often", fixture.namespace),
        ),
        ("keys", "/ui/keys".to_owned()),
        ("relays", "/ui/relays".to_owned()),
        ("relay", format!("/ui/relays/{}/hook", fixture.namespace)),
        ("system", "/ui/default/system".to_owned()),
        ("not-found", "/ui/none/queues".to_owned()),
    ]
}

#[tokio::test]
async fn every_page_is_accessible_in_light_and_dark() {
    let fixture = DashboardFixture::new().await;
    let pages = pages(&fixture).await;
    walk("accessible", &fixture.base(), async |browser| {
        for (name, page) in &pages {
            for is_dark in [false, true] {
                let scheme = if is_dark { "dark" } else { "light" };
                browser.set_dark(is_dark).await;
                browser.open_page(page).await;
                browser.is_accessible(&format!("{name}, {scheme}")).await;
                browser.screenshot(&format!("page-{name}-{scheme}")).await;
            }
        }
        // A step of an action.
        browser
            .open_page(&format!("{}/jobs?state=delayed", fixture.queue()))
            .await;
        browser.choose("do", "promote").await;
        browser.press("Count them first").await;
        browser.is_accessible("act").await;
        browser.screenshot("page-act").await;
        let schedule = format!("/ui/default/schedules/{}/often", fixture.namespace);
        browser.open_page(&schedule).await;
        browser.press("Delete the schedule").await;
        browser.shows("Its definition is lost.").await;
        browser.is_accessible("schedule, delete").await;
    })
    .await;
}

#[tokio::test]
async fn every_page_fits_on_a_phone() {
    let fixture = DashboardFixture::new().await;
    let pages = pages(&fixture).await;
    walk("phone", &fixture.base(), async |browser| {
        browser.set_phone().await;
        for (name, page) in &pages {
            browser.open_page(page).await;
            let overflow = "return document.documentElement.scrollWidth - window.innerWidth";
            let overflow = browser.run(overflow).await.as_f64().unwrap();
            browser.screenshot(&format!("phone-{name}")).await;
            assert!(overflow <= 0.0, "{name} is {overflow} pixels too wide");
            browser.is_accessible(&format!("{name}, phone")).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_keyboard_is_enough() {
    let fixture = DashboardFixture::new().await;
    fixture.publish(&json!({})).await;
    walk("keyboard", &fixture.base(), async |browser| {
        browser.open_page(&fixture.queue()).await;
        // The first stop leads past the menu.
        browser.key("Tab", 9).await;
        let class = browser.run("return document.activeElement.className").await;
        assert_eq!(class, "skip");
        let focused = "return document.activeElement.textContent.trim()";
        let mut stops = Vec::new();
        for _ in 0..30 {
            browser.key("Tab", 9).await;
            let stop = browser.run(focused).await;
            stops.push(stop.as_str().unwrap().to_owned());
            if stop == "Pause deliveries" {
                browser.key("Enter", 13).await;
                browser.shows("The queue is paused").await;
                return;
            }
        }
        panic!("no way to the button: {stops:?}");
    })
    .await;
}
