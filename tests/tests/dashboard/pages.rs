//! What pages show, and how to get from one to the next.

use serde_json::json;

use crate::browser::walk;
use crate::fixture::DashboardFixture;

#[tokio::test]
async fn the_overview_counts_jobs_and_leads_to_the_queue() {
    let fixture = DashboardFixture::new().await;
    for _ in 0..30 {
        fixture.publish(&json!({})).await;
    }
    walk("overview", &fixture.base(), async |browser| {
        browser.open_page("/ui").await;
        let queue = format!("{}/q", fixture.namespace);
        browser.shows(&queue).await;
        browser.press(&queue).await;
        browser.shows("30\nready").await;
        browser.shows("Why jobs wait").await;
        assert_eq!(browser.address().await, fixture.queue());
        for (entry, title) in [
            ("Queues", "Queues of default"),
            ("Schedules", "Schedules of default"),
            ("Workers", "Workers of default"),
            ("System", "System of default"),
            ("Overview", "Pool default"),
        ] {
            browser.press(entry).await;
            browser.shows(title).await;
        }
        assert_eq!(browser.address().await, "/ui");
    })
    .await;
}

#[tokio::test]
async fn queues_are_searched_sorted_and_paged() {
    let fixture = DashboardFixture::new().await;
    let name = format!("list-{}", fixture.namespace);
    for number in 0..120 {
        let path = format!("/queues/{name}-{number:03}/jobs");
        fixture
            .client
            .call("POST", &path, &json!(1))
            .await
            .expect(201);
    }
    let last = format!("/queues/{name}-119/jobs");
    fixture
        .client
        .call("POST", &last, &json!(1))
        .await
        .expect(201);
    walk("queues", &fixture.base(), async |browser| {
        browser.open_page("/ui/default/queues").await;
        // The figures are up to five seconds old.
        browser.shows("Queues of default").await;
        browser.fill("contains", &name).await;
        browser.press("Search").await;
        browser.shows("120 queues, page 1 of 2").await;
        let names = browser.texts("tbody td:first-child").await;
        assert_eq!(names.len(), 100);
        assert!(names[0].ends_with("-000"), "{names:?}");
        browser.press("Next page").await;
        browser.shows("page 2 of 2").await;
        assert_eq!(browser.texts("tbody td:first-child").await.len(), 20);
        browser.press("Ready").await;
        browser.shows("page 1 of 2").await;
        let names = browser.texts("tbody td:first-child").await;
        assert!(names[0].ends_with("-119"), "{names:?}");
    })
    .await;
}

#[tokio::test]
async fn a_job_shows_why_it_waits_its_attempts_and_its_payload() {
    let fixture = DashboardFixture::new().await;
    let options = json!({"key": "order-17", "attributes": {"tenant": "a"}, "payload": {"order": [1, 2]}, "retry": {"delays": ["1h"]}});
    let id = fixture.publish(&options).await;
    let lease = fixture.reserve().await["lease"].clone();
    let body = json!({"leases": [{"lease": lease, "error": "smtp: 550 mailbox full"}]});
    fixture
        .client
        .call("POST", "/fail", &body)
        .await
        .expect(200);
    walk("job", &fixture.base(), async |browser| {
        browser
            .open_page(&format!("{}/jobs/{id}", fixture.queue()))
            .await;
        for text in [
            "delayed",
            "Attempt 1 has failed",
            "order-17",
            "tenant",
            "smtp: 550 mailbox full",
        ] {
            browser.shows(text).await;
        }
        assert!(
            !browser.text().await.contains("[1"),
            "the payload is shown on request"
        );
        browser
            .find("a[href$='/payload']")
            .await
            .click()
            .await
            .unwrap();
        browser.shows("\"order\": [\n    1,").await;
        browser.press(&format!("Job {id}")).await;
        browser.shows("Attempts that ended").await;
    })
    .await;
}

#[tokio::test]
async fn a_payload_that_is_no_text_is_shown_as_bytes() {
    let fixture = DashboardFixture::new().await;
    let id = fixture
        .publish(&json!({"payload_base64": "AP8=", "content_type": "image/png"}))
        .await;
    walk("payload", &fixture.base(), async |browser| {
        browser
            .open_page(&format!("{}/jobs/{id}/payload", fixture.queue()))
            .await;
        browser.shows("image/png, 2 bytes").await;
        browser.shows("00 ff").await;
    })
    .await;
}

#[tokio::test]
async fn dead_jobs_are_grouped_by_error() {
    let fixture = DashboardFixture::new().await;
    // Two have no text.
    for error in ["smtp: 550", "smtp: 550", "smtp: 550", "timeout", " ", " "] {
        fixture.dead_job(error).await;
    }
    walk("dead", &fixture.base(), async |browser| {
        browser.open_page(&fixture.queue()).await;
        browser.press("Dead jobs").await;
        browser.shows("6 jobs in the dead letter").await;
        assert_eq!(browser.texts("td.number").await, ["3", "2", "1"]);
        browser.shows("an error without a text").await;
        assert_eq!(browser.texts("tbody td a").await.len(), 3);
        browser.press("timeout").await;
        browser.shows("Jobs of").await;
        assert_eq!(browser.texts("tbody tr").await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn workers_are_shown_with_what_they_hold() {
    let fixture = DashboardFixture::new().await;
    let id = fixture.publish(&json!({})).await;
    fixture.reserve().await;
    walk("workers", &fixture.base(), async |browser| {
        browser
            .open_page(&format!(
                "/ui/default/workers?namespace={}",
                fixture.namespace
            ))
            .await;
        browser.shows("walker").await;
        browser.shows("1 job").await;
        browser.press(&id).await;
        browser.shows("Worker walker has attempt 1").await;
    })
    .await;
}

#[tokio::test]
async fn schedules_are_shown_with_their_next_ticks() {
    let fixture = DashboardFixture::new().await;
    let digest = json!({"queue": "q", "cron": "0 9 * * MON-FRI", "time_zone": "Europe/Berlin", "job": {"payload": 1}});
    let tick = json!({"queue": "q", "every": "15m", "paused": true, "job": {"payload": 1}});
    for (name, schedule) in [("digest", digest), ("tick", tick)] {
        let path = format!("/schedules/{name}");
        fixture
            .client
            .call("PUT", &path, &schedule)
            .await
            .expect(201);
    }
    walk("schedules", &fixture.base(), async |browser| {
        let page = format!("/ui/default/schedules?namespace={}", fixture.namespace);
        browser.open_page(&page).await;
        browser.shows("0 9 * * MON-FRI Europe/Berlin").await;
        browser.shows("every 15m").await;
        let rows = browser.texts("tbody tr").await;
        assert!(
            rows[0].contains("digest") && rows[0].contains("(in "),
            "{rows:?}"
        );
        assert!(
            rows[1].contains("paused") && rows[1].ends_with("none"),
            "{rows:?}"
        );
        browser.press(&format!("{}/q", fixture.namespace)).await;
        browser.shows("Why jobs wait").await;
    })
    .await;
}

#[tokio::test]
async fn the_system_page_shows_pumps_buckets_and_servers() {
    let fixture = DashboardFixture::new().await;
    walk("system", &fixture.base(), async |browser| {
        browser.open_page("/ui/default/system").await;
        browser.shows("Redis at 127.0.0.1").await;
        // One pump leads all buckets.
        browser.shows("256").await;
        browser.shows("0–255").await;
        browser.shows("All queues have one lane").await;
    })
    .await;
}

#[tokio::test]
async fn what_does_not_exist_is_said() {
    let fixture = DashboardFixture::new().await;
    let queue = fixture.queue();
    walk("not-found", &fixture.base(), async |browser| {
        for (path, text) in [
            ("/ui/other/queues".to_owned(), "no pool with this name"),
            (format!("{queue}/jobs/x"), "no id of a job"),
            (
                format!("{queue}/jobs/01KAJ0000000000000000000AB"),
                "There is no such job",
            ),
            (
                "/ui/default/queues/a%3Cb/q".to_owned(),
                "no name of a queue",
            ),
        ] {
            browser.open_page(&path).await;
            browser.shows(text).await;
        }
        // A queue that never had a job is empty.
        browser.open_page("/ui/default/queues/none/none").await;
        browser.shows("No job waits.").await;
    })
    .await;
}
