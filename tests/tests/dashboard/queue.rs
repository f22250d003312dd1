//! Each button of the page of a queue.

use std::time::Duration;

use serde_json::json;
use tidegate_testkit::{NativeClient, Stack, eventually};

use crate::browser::walk;
use crate::fixture::{DashboardFixture, publish};

#[tokio::test]
async fn a_queue_is_paused_and_resumed() {
    let fixture = DashboardFixture::new().await;
    fixture.publish(&json!({})).await;
    let policy = async || {
        fixture
            .client
            .get("/queues/q/policy")
            .await
            .expect(200)
            .json()
    };
    walk("pause", &fixture.base(), async |browser| {
        browser.open_page(&fixture.queue()).await;
        browser.press("Pause deliveries").await;
        browser
            .shows("The queue is paused: its jobs are not delivered.")
            .await;
        assert_eq!(policy().await["paused"], true);
        assert!(fixture.reserve().await.is_null());
        browser
            .shows("Its queue is paused: resume it in its policy.")
            .await;
        browser.press("Resume deliveries").await;
        browser.shows("The queue is delivered from again.").await;
        assert_eq!(policy().await["paused"], false);
        assert!(fixture.reserve().await["lease"].is_string());
    })
    .await;
}

#[tokio::test]
async fn a_queue_is_closed_and_opened() {
    let fixture = DashboardFixture::new().await;
    let publish = async || {
        fixture
            .client
            .call("POST", "/queues/q/jobs", &json!(1))
            .await
            .status
    };
    walk("close", &fixture.base(), async |browser| {
        browser.open_page(&fixture.queue()).await;
        browser.press("Refuse new jobs").await;
        browser.shows("The queue takes no new jobs.").await;
        assert_eq!(publish().await, 409);
        browser.press("Accept new jobs").await;
        browser.shows("The queue takes new jobs again.").await;
        assert_eq!(publish().await, 201);
    })
    .await;
}

#[tokio::test]
async fn the_running_jobs_of_a_queue_are_limited() {
    let fixture = DashboardFixture::new().await;
    for _ in 0..2 {
        fixture.publish(&json!({})).await;
    }
    let limit = async || {
        let policy = fixture.client.get("/queues/q/policy").await;
        policy.expect(200).json()["max_running"].clone()
    };
    walk("limit", &fixture.base(), async |browser| {
        browser.open_page(&fixture.queue()).await;
        browser.fill("max_running", "1").await;
        browser.press("Set the limit").await;
        browser.shows("The limit of running jobs is set.").await;
        assert_eq!(limit().await, 1);
        assert!(fixture.reserve().await["lease"].is_string());
        browser.shows("Its queue has 1 of 1 jobs running").await;
        browser.fill("max_running", "0").await;
        browser.press("Set the limit").await;
        browser.shows("max_running must be at least 1").await;
        browser.open_page(&fixture.queue()).await;
        browser.fill("max_running", "").await;
        browser.press("Set the limit").await;
        browser.shows("The limit of running jobs is set.").await;
        assert!(limit().await.is_null());
        assert!(fixture.reserve().await["lease"].is_string());
    })
    .await;
}

#[tokio::test]
async fn a_queue_says_what_holds_its_jobs() {
    let fixture = DashboardFixture::new().await;
    walk("holds", &fixture.base(), async |browser| {
        browser.open_page(&fixture.queue()).await;
        browser.shows("No job waits.").await;
        fixture.publish(&json!({"delay": "1h"})).await;
        browser.shows("No job is ready. 1 is not due yet.").await;
        fixture.publish(&json!({})).await;
        browser.shows("no worker waits for its queue").await;
        fixture.reserve().await;
        fixture.publish(&json!({})).await;
        browser.shows("It is the next job of its queue").await;
    })
    .await;
}

#[tokio::test]
async fn the_numbers_of_a_queue_lead_to_its_jobs() {
    let fixture = DashboardFixture::new().await;
    let id = fixture.publish(&json!({"delay": "1h"})).await;
    fixture.publish(&json!({})).await;
    walk("tiles", &fixture.base(), async |browser| {
        browser.open_page(&fixture.queue()).await;
        browser
            .find(".tile a[href$='state=delayed']")
            .await
            .click()
            .await
            .unwrap();
        browser.shows("Jobs of").await;
        assert_eq!(
            browser.texts("tbody td:first-child").await,
            std::slice::from_ref(&id)
        );
    })
    .await;
}

/// The text of a page that needs no browser.
async fn text_of(stack: &Stack, path: &str) -> String {
    let answer = reqwest::get(format!("{}{path}", stack.api(0).admin_url())).await;
    answer.unwrap().text().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_shows_its_rate_and_whether_it_holds_back() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let once = json!({"jobs": 1, "per": "1h"});
    client.call("PUT", "/limits/smtp", &once).await.expect(201);
    let policy = json!({"rate": {"jobs": 5}, "limit": "smtp"});
    let set = client.call("PUT", "/queues/q/policy", &policy).await;
    set.expect(200);
    let page = text_of(&stack, "/ui/default/queues/shop/q").await;
    for shown in ["Rate", "5 in 1s", "Limit smtp", "1 in 1h"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(!page.contains("next in"), "{page}");
    for _ in 0..2 {
        publish(&client, &json!({})).await;
    }
    assert_eq!(client.reserve("q", 2).await.len(), 1);
    let page = text_of(&stack, "/ui/default/queues/shop/q").await;
    for shown in ["1 in 1h, next in 59m", "Its queue shares the limit smtp"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_whose_jobs_are_overdue_names_the_missing_pump() {
    let settings = "[metrics]\nrefresh = \"200ms\"";
    let stack = Stack::builder().pumps(0).api_config(settings).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    publish(&client, &json!({"delay": "1s"})).await;
    let limit = Duration::from_secs(30);
    eventually("the pump is named", limit, async || {
        let page = text_of(&stack, "/ui/default/queues/shop/q").await;
        match page.contains("One that is due: It was due") && page.contains("no pump runs") {
            true => Ok(()),
            false => Err(page),
        }
    })
    .await;
    stack.finish().await;
}

/// The entries of jobs that were cancelled stay in the list for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oldest_ready_job_is_found_behind_entries_of_cancelled_ones() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let page = async || text_of(&stack, "/ui/default/queues/shop/q").await;
    for (old, jobs) in [(true, 120), (false, 130)] {
        let attributes = json!({"old": old.to_string()});
        let jobs = vec![json!({"payload": 1, "attributes": attributes}); jobs];
        let jobs = json!({"jobs": jobs});
        let published = client.call("POST", "/queues/q/jobs/batch", &jobs).await;
        published.expect(200);
    }
    let act = json!({"do": "cancel", "filter": {"attribute": "old=true"}, "limit": 1000});
    let changed = client.call("POST", "/queues/q/jobs/act", &act).await;
    assert_eq!(changed.expect(200).json()["changed"], 120);
    let shown = page().await;
    assert!(shown.contains("The oldest ready job: "), "{shown}");
    stack.finish().await;
}
