//! Each button of the page of a job.

use serde_json::json;

use crate::browser::walk;
use crate::fixture::{DashboardFixture, post_form};

fn page(fixture: &DashboardFixture, id: &str) -> String {
    format!("{}/jobs/{id}", fixture.queue())
}

#[tokio::test]
async fn a_delayed_job_is_run_now() {
    let fixture = DashboardFixture::new().await;
    let id = fixture.publish(&json!({"delay": "1h"})).await;
    walk("promote", &fixture.base(), async |browser| {
        browser.open_page(&page(&fixture, &id)).await;
        browser.press("Run now").await;
        browser.shows("The job is ready now.").await;
        assert_eq!(fixture.job(&id).await["state"], "ready");
        assert!(!browser.offers("Run now").await);
    })
    .await;
}

#[tokio::test]
async fn a_job_is_due_later() {
    let fixture = DashboardFixture::new().await;
    let id = fixture.publish(&json!({})).await;
    walk("change", &fixture.base(), async |browser| {
        browser.open_page(&page(&fixture, &id)).await;
        browser.fill("delay", "soon").await;
        browser.press("Change").await;
        browser.shows("soon").await;
        assert_eq!(fixture.job(&id).await["state"], "ready");
        browser.open_page(&page(&fixture, &id)).await;
        browser.fill("delay", "2h").await;
        browser.press("Change").await;
        browser.shows("The job is due at the new time.").await;
        assert_eq!(fixture.job(&id).await["state"], "delayed");
    })
    .await;
}

#[tokio::test]
async fn a_job_that_waits_is_cancelled() {
    let fixture = DashboardFixture::new().await;
    let id = fixture.publish(&json!({"delay": "1h"})).await;
    walk("cancel", &fixture.base(), async |browser| {
        browser.open_page(&page(&fixture, &id)).await;
        browser.press("Cancel").await;
        browser.shows("The job is cancelled.").await;
        assert!(fixture.is_gone(&id).await);
    })
    .await;
}

#[tokio::test]
async fn a_worker_is_asked_to_stop() {
    let fixture = DashboardFixture::new().await;
    let id = fixture.publish(&json!({})).await;
    let lease = fixture.reserve().await["lease"].clone();
    walk("ask", &fixture.base(), async |browser| {
        browser.open_page(&page(&fixture, &id)).await;
        browser.choose("running", "ask").await;
        browser.press("Cancel").await;
        browser.shows("Its worker is asked to stop.").await;
        let body = json!({"leases": [lease]});
        let touched = fixture
            .client
            .call("POST", "/touch", &body)
            .await
            .expect(200)
            .json();
        assert_eq!(touched["results"][0]["cancel_requested"], true, "{touched}");
    })
    .await;
}

#[tokio::test]
async fn a_job_is_taken_from_its_worker() {
    let fixture = DashboardFixture::new().await;
    let id = fixture.publish(&json!({})).await;
    fixture.reserve().await;
    walk("revoke", &fixture.base(), async |browser| {
        browser.open_page(&page(&fixture, &id)).await;
        browser.choose("running", "revoke").await;
        browser.press("Cancel").await;
        browser.shows("The job is cancelled.").await;
        assert!(fixture.is_gone(&id).await);
    })
    .await;
}

#[tokio::test]
async fn a_dead_job_is_brought_back() {
    let fixture = DashboardFixture::new().await;
    let id = fixture.dead_job("smtp: 550").await;
    walk("respawn-one", &fixture.base(), async |browser| {
        browser.open_page(&page(&fixture, &id)).await;
        browser
            .shows("its worker said that no attempt can succeed")
            .await;
        browser.press("Respawn").await;
        browser.shows("The job is ready again.").await;
        assert_eq!(fixture.job(&id).await["state"], "ready");
    })
    .await;
}

#[tokio::test]
async fn a_dead_job_is_deleted() {
    let fixture = DashboardFixture::new().await;
    let id = fixture.dead_job("smtp: 550").await;
    walk("purge-one", &fixture.base(), async |browser| {
        browser.open_page(&page(&fixture, &id)).await;
        browser.press("Delete").await;
        browser.shows("The job is deleted.").await;
        assert!(fixture.is_gone(&id).await);
    })
    .await;
}

#[tokio::test]
async fn an_action_that_comes_too_late_changes_nothing() {
    let fixture = DashboardFixture::new().await;
    let id = fixture.publish(&json!({"delay": "1h"})).await;
    walk("too-late", &fixture.base(), async |browser| {
        browser.open_page(&page(&fixture, &id)).await;
        fixture
            .client
            .send("DELETE", &format!("/queues/q/jobs/{id}"), &[], b"")
            .await
            .expect(200);
        browser.press("Run now").await;
        browser.shows("There is no such job").await;
    })
    .await;
}

/// Its entry in the list of dead jobs, where it stays, counts again when it dies again.
#[tokio::test]
async fn a_job_that_was_brought_back_and_died_again_is_listed_once() {
    let fixture = DashboardFixture::new().await;
    fixture.dead_job("x").await;
    let id = fixture.dead_job("x").await;
    let (status, _) = post_form(&fixture.stack, &page(&fixture, &id), "do=respawn").await;
    assert_eq!(status, 200);
    fixture.kill_all("x").await;
    assert_eq!(fixture.count("dead").await, 2);
    let list = fixture.client.get("/queues/q/jobs?state=dead").await;
    let list = list.expect(200).json();
    assert_eq!(list["items"].as_array().unwrap().len(), 2, "{list}");
}
