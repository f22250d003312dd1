//! The page of a schedule, and each of its buttons.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::eventually;

use crate::browser::walk;
use crate::fixture::DashboardFixture;

/// Sets the schedule `digest`.
async fn set(fixture: &DashboardFixture, schedule: &Value) {
    let set = fixture.client.call("PUT", "/schedules/digest", schedule);
    let status = set.await.status;
    assert!([200, 201].contains(&status), "{status}");
}

async fn shown(fixture: &DashboardFixture) -> Value {
    let answer = fixture.client.get("/schedules/digest").await;
    answer.expect(200).json()
}

fn page(fixture: &DashboardFixture) -> String {
    format!("/ui/default/schedules/{}/digest", fixture.namespace)
}

#[tokio::test]
async fn a_schedule_is_paused_and_resumed() {
    let fixture = DashboardFixture::new().await;
    let schedule = json!({"queue": "q", "cron": "0 9 * * MON-FRI", "time_zone": "Europe/Berlin",
        "job": {"payload": {"big": 12345678901234567890_u64}}});
    set(&fixture, &schedule).await;
    let before = shown(&fixture).await;
    walk("schedule-pause", &fixture.base(), async |browser| {
        let list = format!("/ui/default/schedules?namespace={}", fixture.namespace);
        browser.open_page(&list).await;
        browser.press("digest").await;
        browser.shows("Next ticks").await;
        assert_eq!(browser.address().await, page(&fixture));
        assert_eq!(browser.texts("ol li").await.len(), 5);
        browser.shows("none yet").await;
        browser.shows("12345678901234567890").await;
        browser.press("Pause the schedule").await;
        browser.shows("The schedule is paused").await;
        browser.shows("None: it is paused.").await;
        let paused = shown(&fixture).await;
        assert_eq!(paused["config"]["paused"], true);
        assert_eq!(paused["next_run"], Value::Null);
        browser.press("Resume the schedule").await;
        browser.shows("publishes jobs again").await;
        let resumed = shown(&fixture).await;
        assert_eq!(resumed["config"], before["config"]);
        assert_eq!(resumed["next_run"], before["next_run"]);
    })
    .await;
}

#[tokio::test]
async fn a_schedule_leads_to_its_jobs_and_is_deleted_once_that_is_confirmed() {
    let fixture = DashboardFixture::new().await;
    set(
        &fixture,
        &json!({"queue": "q", "every": "1s", "job": {"payload": 1}}),
    )
    .await;
    eventually("a job is published", Duration::from_secs(30), async || {
        let ready = fixture.count("ready").await;
        if ready == 1 { Ok(()) } else { Err(ready) }
    })
    .await;
    walk("schedule-delete", &fixture.base(), async |browser| {
        browser.open_page(&page(&fixture)).await;
        browser
            .shows("Last tick, whose job was published or left out: 2")
            .await;
        browser.press("List them").await;
        browser.shows("schedule:digest").await;
        assert_eq!(browser.texts("tbody tr").await.len(), 1);
        browser.open_page(&page(&fixture)).await;
        browser.press("Delete the schedule").await;
        browser
            .shows("1 job that it has published waits and stays.")
            .await;
        browser.press("Leave it").await;
        browser.shows("Next ticks").await;
        browser.press("Delete the schedule").await;
        browser.press("Delete it").await;
        browser.shows("The schedule is deleted.").await;
        let gone = fixture.client.get("/schedules/digest").await;
        assert_eq!(gone.status, 404);
        assert_eq!(fixture.count("ready").await, 1);
        browser.open_page(&page(&fixture)).await;
        browser.shows("There is no such schedule").await;
    })
    .await;
}

#[tokio::test]
async fn a_page_that_is_out_of_date_changes_no_newer_schedule() {
    let fixture = DashboardFixture::new().await;
    let every = |every: &str| json!({"queue": "q", "every": every, "job": {"payload": 1}});
    set(&fixture, &every("15m")).await;
    walk("schedule-stale", &fixture.base(), async |browser| {
        for (steps, renewed) in [
            (["Pause the schedule"].as_slice(), "20m"),
            (&["Delete the schedule", "Delete it"], "25m"),
        ] {
            browser.open_page(&page(&fixture)).await;
            browser.shows("Up to date").await;
            let (last, before) = steps.split_last().unwrap();
            for step in before {
                browser.press(step).await;
                browser.shows("Its definition is lost.").await;
            }
            set(&fixture, &every(renewed)).await;
            if before.is_empty() {
                browser.shows("The schedule has been changed").await;
            }
            browser.press(last).await;
            browser.shows("your page was out of date").await;
            let config = shown(&fixture).await["config"].clone();
            assert_eq!(config["paused"], false);
            assert_eq!(config["every"], renewed);
        }
    })
    .await;
}

#[tokio::test]
async fn a_damaged_schedule_is_deleted_and_cannot_be_paused() {
    let fixture = DashboardFixture::new().await;
    let client = redis::Client::open(fixture.stack.redis.url()).unwrap();
    let mut redis = tidegate_testkit::connect_to_redis(&client).await.unwrap();
    let key = format!("tg:schedules:{}", fixture.namespace);
    for value in ["3.0000000a {}", "damaged"] {
        let mut set = redis::cmd("HSET");
        set.arg(&key).arg("digest").arg(value);
        set.exec_async(&mut redis).await.unwrap();
        walk("schedule-damaged", &fixture.base(), async |browser| {
            browser.open_page(&page(&fixture)).await;
            browser.shows("The stored schedule cannot be read").await;
            assert!(!browser.offers("Pause the schedule").await);
            browser.press("Delete the schedule").await;
            browser.press("Delete it").await;
            browser.shows("The schedule is deleted.").await;
        })
        .await;
        let left: Option<String> = redis::cmd("HGET")
            .arg(&key)
            .arg("digest")
            .query_async(&mut redis)
            .await
            .unwrap();
        assert_eq!(left, None, "{value}");
    }
}
