//! The list of jobs: each of its filters, pages, and the search for an id.

use std::time::Duration;

use serde_json::json;
use tidegate_testkit::eventually;

use crate::browser::{Browser, walk};
use crate::fixture::DashboardFixture;

/// Waits until the list has these jobs only.
async fn lists(browser: &Browser, expected: &str) {
    eventually(
        "the list has one job",
        Duration::from_secs(30),
        async || {
            let found = ids(browser).await;
            if found == [expected] {
                Ok(())
            } else {
                Err(format!("{found:?}, not {expected}"))
            }
        },
    )
    .await;
}

/// The ids in the list.
async fn ids(browser: &Browser) -> Vec<String> {
    let cells = browser.texts("tbody td:first-child").await;
    cells
        .iter()
        .filter_map(|cell| cell.lines().next().map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn jobs_are_filtered_by_state() {
    let fixture = DashboardFixture::new().await;
    let delayed = fixture.publish(&json!({"delay": "1h"})).await;
    let ready = fixture.publish(&json!({})).await;
    walk("filter-state", &fixture.base(), async |browser| {
        browser.open_page(&fixture.queue()).await;
        browser.press("Jobs").await;
        assert_eq!(ids(browser).await.len(), 2);
        for (state, id) in [("ready", &ready), ("delayed", &delayed)] {
            browser.choose("state", state).await;
            browser.press("Filter").await;
            lists(browser, id).await;
        }
        browser.choose("state", "leased").await;
        browser.press("Filter").await;
        browser.shows("No job matches.").await;
    })
    .await;
}

#[tokio::test]
async fn jobs_are_filtered_by_key_attribute_error_and_time() {
    let fixture = DashboardFixture::new().await;
    let dead = fixture.dead_job("smtp: 550").await;
    let keyed = fixture
        .publish(&json!({"key": "order-17", "delay": "1h"}))
        .await;
    let tagged = fixture
        .publish(&json!({"attributes": {"tenant": "a"}, "delay": "1h"}))
        .await;
    let late = fixture
        .publish(&json!({"run_at": "2040-01-01T00:00:00Z"}))
        .await;
    walk("filter-fields", &fixture.base(), async |browser| {
        for (field, value, id) in [
            ("key_prefix", "order-", &keyed),
            ("attribute", "tenant=a", &tagged),
            ("error_contains", "550", &dead),
            ("due_from", "2039-12-31T00:00:00Z", &late),
        ] {
            browser
                .open_page(&format!("{}/jobs", fixture.queue()))
                .await;
            browser.fill(field, value).await;
            browser.press("Filter").await;
            lists(browser, id).await;
            // The filter is in the address.
            browser.reload().await;
            lists(browser, id).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_filter_that_is_not_valid_is_explained() {
    let fixture = DashboardFixture::new().await;
    fixture.publish(&json!({})).await;
    walk("filter-invalid", &fixture.base(), async |browser| {
        browser
            .open_page(&format!("{}/jobs", fixture.queue()))
            .await;
        browser.fill("due_from", "yesterday").await;
        browser.press("Filter").await;
        browser.shows("RFC 3339").await;
        // What was typed is still there.
        let typed = browser
            .run("return document.querySelector('input[name=due_from]').value")
            .await;
        assert_eq!(typed, "yesterday");
    })
    .await;
}

#[tokio::test]
async fn a_list_has_pages() {
    let fixture = DashboardFixture::new().await;
    for _ in 0..120 {
        fixture.publish(&json!({})).await;
    }
    walk("filter-pages", &fixture.base(), async |browser| {
        browser
            .open_page(&format!("{}/jobs?state=ready", fixture.queue()))
            .await;
        let mut found = ids(browser).await;
        for rows in [50, 20] {
            let before = found.len();
            browser.press("Next page").await;
            eventually(
                "the next page is shown",
                Duration::from_secs(30),
                async || {
                    let shown = ids(browser).await;
                    let is_next = shown.len() == rows && !found.contains(&shown[0]);
                    if is_next { Ok(shown) } else { Err(shown.len()) }
                },
            )
            .await
            .into_iter()
            .for_each(|id| found.push(id));
            assert_eq!(found.len(), before + rows);
        }
        assert!(!browser.offers("Next page").await);
        found.sort();
        found.dedup();
        assert_eq!(found.len(), 120);
        browser.press("First page").await;
        browser.shows("Next page").await;
        assert_eq!(ids(browser).await.len(), 50);
    })
    .await;
}

#[tokio::test]
async fn a_job_is_found_by_its_id() {
    let fixture = DashboardFixture::new().await;
    let id = fixture.publish(&json!({})).await;
    walk("filter-id", &fixture.base(), async |browser| {
        browser
            .open_page(&format!("{}/jobs", fixture.queue()))
            .await;
        browser.fill("id", &format!(" {id} ")).await;
        browser.press("Show").await;
        browser.shows(&format!("Job {id}")).await;
        browser
            .open_page(&format!("{}/jobs", fixture.queue()))
            .await;
        browser.fill("id", "order-17").await;
        browser.press("Show").await;
        browser.shows("This is no id of a job.").await;
    })
    .await;
}
