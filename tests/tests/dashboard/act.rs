//! Actions on all jobs that match a filter: counted first, then done.

use serde_json::json;

use crate::browser::{Browser, walk};
use crate::fixture::{DashboardFixture, post_form};

/// Opens the list with a filter, and counts what an action would change.
async fn count(browser: &Browser, fixture: &DashboardFixture, query: &str, action: &str) {
    browser
        .open_page(&format!("{}/jobs?{query}", fixture.queue()))
        .await;
    browser.choose("do", action).await;
    browser.press("Count them first").await;
}

#[tokio::test]
async fn dead_jobs_with_an_error_are_brought_back() {
    let fixture = DashboardFixture::new().await;
    for error in ["smtp: 550", "smtp: 550", "timeout"] {
        fixture.dead_job(error).await;
    }
    walk("act-respawn", &fixture.base(), async |browser| {
        count(browser, &fixture, "error_contains=550", "respawn").await;
        browser.shows("2 jobs match.").await;
        // Counting changes nothing.
        assert_eq!(fixture.count("dead").await, 3);
        browser.press("Do it").await;
        browser
            .shows("2 jobs changed of 2 that matched. That is all.")
            .await;
        assert_eq!(
            (fixture.count("dead").await, fixture.count("ready").await),
            (1, 2)
        );
        browser.press("Back to the queue").await;
        browser.shows("Why jobs wait").await;
        assert_eq!(browser.address().await, fixture.queue());
    })
    .await;
}

/// Groups whose errors have the same longest line, or contain each other, and a group whose errors have no text.
#[tokio::test]
async fn the_link_of_a_group_of_dead_jobs_is_for_exactly_that_group() {
    const EACH: u64 = 10;
    let fixture = DashboardFixture::new().await;
    let line = "  File \"/srv/app/handlers/payments.py\", line 117, in handle_payment_confirmation";
    let errors = [
        format!("Traceback\n{line}\nTimeout"),
        format!("Traceback\n{line}\nTimeout: 30 s"),
        line.to_owned(),
        " ".to_owned(),
    ];
    for error in &errors {
        for _ in 0..EACH {
            fixture.publish(&json!({})).await;
        }
        fixture.kill_all(error).await;
    }
    let dead = format!("{}/dead", fixture.queue());
    let page = get_page(&fixture, &dead).await;
    let links: Vec<String> = page
        .split("href=\"")
        .filter_map(|rest| rest.split('"').next())
        .filter(|link| link.contains("error_group="))
        .map(|link| link.replace("&amp;", "&"))
        .collect();
    assert_eq!(links.len(), errors.len(), "{page}");
    let act = format!("{}/act", fixture.queue());
    for (done, link) in links.iter().enumerate() {
        let list = get_page(&fixture, link).await;
        let listed = list.matches("/jobs/0").count() as u64;
        assert_eq!(listed, EACH, "{link}: {list}");
        let (_, filter) = link.split_once('?').unwrap();
        for action in ["respawn", "purge"] {
            let form = format!("do={action}&{filter}");
            let (status, counted) = post_form(&fixture.stack, &act, &form).await;
            assert_eq!(status, 200, "{counted}");
            assert!(
                counted.contains("<strong>10 jobs</strong> match."),
                "{counted}"
            );
        }
        let form = format!("do=respawn&step=run&{filter}");
        let (_, changed) = post_form(&fixture.stack, &act, &form).await;
        assert!(changed.contains("10 jobs changed"), "{changed}");
        let left = EACH * (links.len() - done - 1) as u64;
        assert_eq!(fixture.count("dead").await, left);
    }
    // What is no group is not one of all jobs.
    let form = "do=purge&state=dead&error_group=x";
    let (status, refused) = post_form(&fixture.stack, &act, form).await;
    assert_eq!(status, 400, "{refused}");
    assert!(refused.contains("error_group"), "{refused}");
}

async fn get_page(fixture: &DashboardFixture, path: &str) -> String {
    let answer = reqwest::get(format!("{}{path}", fixture.base())).await;
    answer.unwrap().text().await.unwrap()
}

/// A filter that is lost on the way would be one for all jobs.
#[tokio::test]
async fn a_filter_is_taken_as_it_is_or_refused() {
    let fixture = DashboardFixture::new().await;
    for key in ["a", "a b"] {
        fixture.publish(&json!({"key": key, "delay": "1h"})).await;
    }
    let act = format!("{}/act", fixture.queue());
    for (filter, expected) in [
        ("key_prefix=+", "0 jobs"),
        ("key_prefix=a+", "1 job"),
        ("key_prefix=a", "2 jobs"),
        ("state=ready&state=delayed", "state: the form has it twice"),
    ] {
        let form = format!("do=cancel&{filter}");
        let (status, page) = post_form(&fixture.stack, &act, &form).await;
        let is_refused = expected.contains("twice");
        assert_eq!(status, if is_refused { 400 } else { 200 }, "{filter}");
        assert!(page.contains(expected), "{filter}: {page}");
    }
}

#[tokio::test]
async fn dead_jobs_are_brought_back_at_a_rate_by_a_page_that_goes_on_by_itself() {
    let fixture = DashboardFixture::new().await;
    fixture.dead_jobs(60).await;
    walk("act-rate", &fixture.base(), async |browser| {
        browser
            .open_page(&format!("{}/dead", fixture.queue()))
            .await;
        browser.choose("do", "respawn").await;
        browser.fill("rate_per_second", "2").await;
        browser.press("Count them first").await;
        browser.shows("60 jobs match.").await;
        browser.press("Do it").await;
        // At two a second 30 s are needed, and up to 20 s are scheduled ahead.
        browser.shows("so far").await;
        browser
            .shows("60 jobs changed of 60 that matched. That is all.")
            .await;
        assert_eq!(fixture.count("dead").await, 0);
    })
    .await;
}

#[tokio::test]
async fn jobs_are_promoted_changed_and_cancelled_together() {
    let fixture = DashboardFixture::new().await;
    let jobs = [("order-1", "1h"), ("order-2", "1h"), ("other", "1h")];
    for (key, delay) in jobs {
        fixture.publish(&json!({"key": key, "delay": delay})).await;
    }
    walk("act-others", &fixture.base(), async |browser| {
        count(browser, &fixture, "key_prefix=order-", "promote").await;
        browser.shows("2 jobs match.").await;
        browser.press("Do it").await;
        browser.shows("2 jobs changed").await;
        assert_eq!(fixture.count("ready").await, 2);
        browser
            .open_page(&format!("{}/jobs?state=ready", fixture.queue()))
            .await;
        browser.choose("do", "change").await;
        browser.fill("delay", "30m").await;
        browser.press("Count them first").await;
        browser.press("Do it").await;
        browser.shows("2 jobs changed").await;
        assert_eq!(
            (fixture.count("ready").await, fixture.count("delayed").await),
            (0, 3)
        );
        count(browser, &fixture, "key_prefix=order-", "cancel").await;
        browser.press("Do it").await;
        browser.shows("2 jobs changed").await;
        assert_eq!(fixture.count("delayed").await, 1);
    })
    .await;
}

#[tokio::test]
async fn dead_jobs_are_purged_and_a_purge_needs_a_state() {
    let fixture = DashboardFixture::new().await;
    fixture.dead_job("x").await;
    fixture.publish(&json!({})).await;
    walk("act-purge", &fixture.base(), async |browser| {
        count(browser, &fixture, "", "purge").await;
        browser.shows("name the state of the jobs to delete").await;
        count(browser, &fixture, "state=dead", "purge").await;
        browser.shows("1 job matches.").await;
        browser.press("Do it").await;
        browser.shows("1 job changed").await;
        assert_eq!(
            (fixture.count("dead").await, fixture.count("ready").await),
            (0, 1)
        );
    })
    .await;
}

#[tokio::test]
async fn an_action_that_is_left_changes_nothing() {
    let fixture = DashboardFixture::new().await;
    fixture.publish(&json!({"delay": "1h"})).await;
    walk("act-leave", &fixture.base(), async |browser| {
        count(browser, &fixture, "state=delayed", "cancel").await;
        browser.press("Leave it").await;
        browser.shows("Jobs of").await;
        assert_eq!(browser.texts("tbody tr").await.len(), 1);
        assert_eq!(fixture.count("delayed").await, 1);
        // An option of another action is refused.
        browser.choose("do", "cancel").await;
        browser.fill("rate_per_second", "5").await;
        browser.press("Count them first").await;
        browser.shows("rate_per_second is for `respawn` only").await;
    })
    .await;
}
