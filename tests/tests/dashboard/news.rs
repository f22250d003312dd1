//! Lists of jobs stay as they are while they are read, and say what has changed.

use serde_json::json;

use crate::browser::walk;
use crate::fixture::DashboardFixture;

#[tokio::test]
async fn a_list_of_jobs_says_what_has_changed_and_does_not_move() {
    let fixture = DashboardFixture::new().await;
    let mut ids = Vec::new();
    for number in 0..4 {
        let job = json!({"key": format!("order-{number}"), "delay": "1h"});
        ids.push(fixture.publish(&job).await);
    }
    walk("news", &fixture.base(), async |browser| {
        let page = format!("{}/jobs?key_prefix=order-", fixture.queue());
        browser.open_page(&page).await;
        browser.shows("Up to date").await;
        assert_eq!(browser.texts("#news").await, [""]);
        browser.fill("error_contains", "half typed").await;
        let is_at = "return document.querySelector('tbody').getBoundingClientRect().top";
        let before = browser.run(is_at).await;
        // Jobs that the filter leaves out are no news.
        fixture.publish(&json!({"key": "other"})).await;
        fixture
            .publish(&json!({"key": "order-4", "delay": "1h"}))
            .await;
        browser.shows("Since this list was loaded: 1 new. ").await;
        let send = async |method: &str, id: &str, verb: &str| {
            let path = format!("/queues/q/jobs/{id}{verb}");
            let sent = fixture.client.send(method, &path, &[], b"").await;
            sent.expect(200);
        };
        send("POST", &ids[0], "/promote").await;
        send("DELETE", &ids[1], "").await;
        send("DELETE", &ids[2], "").await;
        browser.shows("1 new, 1 changed, 2 no longer here. ").await;
        browser.is_accessible("news").await;
        assert_eq!(browser.texts("tbody tr").await.len(), 4);
        assert_eq!(browser.run(is_at).await, before);
        let typed = "return document.querySelector(\"input[name='error_contains']\").value";
        assert_eq!(browser.run(typed).await, "half typed");
        browser.press("Load it again").await;
        browser.shows("order-4").await;
        browser.shows("Up to date").await;
        assert_eq!(browser.texts("tbody tr").await.len(), 3);
        assert!(browser.address().await.contains("key_prefix=order"));
        assert_eq!(browser.texts("#news").await, [""]);
    })
    .await;
}

#[tokio::test]
async fn a_list_that_is_not_at_its_begin_is_compared_from_its_own_begin() {
    let fixture = DashboardFixture::new().await;
    for _ in 0..70 {
        fixture.publish(&json!({})).await;
    }
    walk("news-next", &fixture.base(), async |browser| {
        let page = format!("{}/jobs?state=ready", fixture.queue());
        browser.open_page(&page).await;
        browser.press("Next page").await;
        browser.shows("First page").await;
        browser.shows("Up to date").await;
        assert_eq!(browser.texts("#news").await, [""]);
        fixture.publish(&json!({})).await;
        browser.shows("Since this list was loaded: 1 new. ").await;
        browser.press("Load it again").await;
        browser.shows("Up to date").await;
        assert_eq!(browser.texts("tbody tr").await.len(), 21);
    })
    .await;
}

#[tokio::test]
async fn dead_jobs_say_when_there_are_more() {
    let fixture = DashboardFixture::new().await;
    fixture.dead_job("smtp: 550").await;
    walk("news-dead", &fixture.base(), async |browser| {
        let page = format!("{}/dead", fixture.queue());
        browser.open_page(&page).await;
        browser.shows("Up to date").await;
        fixture.dead_job("timeout").await;
        browser
            .shows("Now 2 jobs, 1 when this page was loaded.")
            .await;
        assert_eq!(browser.texts("tbody tr").await.len(), 1);
        browser.press("Load it again").await;
        browser.shows("timeout").await;
    })
    .await;
}
