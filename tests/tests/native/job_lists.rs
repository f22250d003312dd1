//! Lists of jobs, and actions on all that match a filter.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, SharedStack, Stack};

static STACK: SharedStack = SharedStack::new(|| Stack::builder().pumps(0));

/// The ids of all pages of a list.
pub(crate) async fn list(client: &NativeClient, query: &str, limit: usize) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/queues/q/jobs?limit={limit}&{query}{cursor}");
        let page = client.get(&path).await.expect(200).json();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= limit);
        ids.extend(items.iter().map(id_of));
        match page["next"].as_str() {
            None => return ids,
            Some(next) => cursor = format!("&cursor={next}"),
        }
    }
}

pub(crate) fn id_of(job: &Value) -> String {
    job["id"].as_str().unwrap().to_owned()
}

/// Calls an action until it is complete, and returns how many jobs matched and were changed.
pub(crate) async fn act(client: &NativeClient, body: &Value) -> (u64, u64) {
    let (mut body, mut sums) = (body.clone(), (0, 0));
    for _ in 0..1000 {
        let answer = act_once(client, &body).await;
        sums.0 += answer["matched"].as_u64().unwrap();
        sums.1 += answer["changed"].as_u64().unwrap();
        if answer["next"].is_null() {
            return sums;
        }
        body["cursor"] = answer["next"].clone();
        let wait_ms = answer["wait_ms"].as_u64().unwrap();
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
    }
    panic!("the action does not end: {sums:?}");
}

/// Calls an action once.
pub(crate) async fn act_once(client: &NativeClient, body: &Value) -> Value {
    let answer = client.call("POST", "/queues/q/jobs/act", body).await;
    answer.expect(200).json()
}

pub(crate) async fn publish(client: &NativeClient, options: &str) -> String {
    let published = client.publish("q", options, "{}").await;
    id_of(&published.expect(201).json())
}

/// Publishes jobs that fail for good with this error.
async fn bury(client: &NativeClient, jobs: usize, error: &str) {
    for _ in 0..jobs {
        publish(client, "").await;
    }
    let mut dead = 0;
    while dead < jobs {
        let taken = client.reserve("q", 200).await;
        let failed = |job: &Value| json!({"lease": job["lease"], "error": error, "dead": true});
        let leases: Vec<Value> = taken.iter().map(failed).collect();
        dead += leases.len();
        client.settle("fail", &json!({ "leases": leases })).await;
    }
}

pub(crate) async fn counts(client: &NativeClient) -> Value {
    let shown = client.get("/queues/q").await;
    shown.expect(200).json()["jobs"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_listed_by_state_time_key_attribute_and_error() {
    let stack = STACK.acquire().await;
    let client = NativeClient::new(stack.api(0), "listed").await;
    bury(&client, 2, "smtp: 550 no such user").await;
    bury(&client, 3, "http: 502").await;
    let soon = publish(&client, "delay=1m&key=order-17").await;
    let late = publish(&client, "delay=30d&key=order-18").await;
    publish(&client, "key=invoice-1").await;
    let path = "/queues/q/jobs";
    let blue = [("Job-Attr-Tenant", "blue=green")];
    let blue = client.send("POST", path, &blue, b"x").await.expect(201);
    let blue = id_of(&blue.json());
    for limit in [1, 3, 1000] {
        let found = async |query| list(&client, query, limit).await;
        assert_eq!(found("").await.len(), 9);
        assert_eq!(found("state=dead").await.len(), 5);
        assert_eq!(found("state=dead&error_contains=550").await.len(), 2);
        assert_eq!(found("error_contains=http:").await.len(), 3);
        let orders: BTreeSet<String> = found("key_prefix=order-").await.into_iter().collect();
        assert_eq!(orders, BTreeSet::from([soon.clone(), late.clone()]));
        assert_eq!(
            found("attribute=tenant%3Dblue%3Dgreen").await,
            std::slice::from_ref(&blue)
        );
        assert_eq!(found("attribute=tenant=blue").await.len(), 0);
        assert_eq!(found("state=delayed").await.len(), 2);
        assert_eq!(
            found("state=delayed&due_before=2999-01-01T00:00:00Z")
                .await
                .len(),
            2
        );
        assert_eq!(
            found("state=delayed&due_before=2026-01-01T00:00:00Z")
                .await
                .len(),
            0
        );
    }
    let dead = client.get("/queues/q/jobs?state=dead&limit=1").await;
    let dead = dead.expect(200).json()["items"][0].clone();
    assert_eq!(dead["history"][0]["error"], "smtp: 550 no such user");
    assert_eq!(
        (&dead["reason"], &dead["failures"]),
        (&json!("permanent"), &json!(1))
    );
    let shown = client
        .get(&format!("/queues/q/jobs/{}", id_of(&dead)))
        .await;
    assert_eq!(shown.expect(200).json(), dead, "as it is shown");
    for (query, field) in [
        ("state=gone", "state"),
        ("cursor=0.0.all:1", "cursor"),
        ("cursor=17", "cursor"),
        ("limit=0", "limit"),
        ("attribute=tenant", "attribute"),
        ("error=smtp", "error"),
    ] {
        let refused = client.get(&format!("/queues/q/jobs?{query}")).await;
        assert_eq!(refused.expect(400).json()["field"], field, "{query}");
    }
    let without = NativeClient::with_scopes(stack.api(0), "listed", &["publish", "consume"]).await;
    without.get(path).await.expect(403);
    let body = json!({"do": "cancel", "filter": {}});
    let read = NativeClient::with_scopes(stack.api(0), "listed", &["read"]).await;
    read.call("POST", "/queues/q/jobs/act", &body)
        .await
        .expect(403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_changes_what_matches_and_a_dry_run_only_counts() {
    let stack = STACK.acquire().await;
    let client = NativeClient::new(stack.api(0), "acted").await;
    for number in 0..30 {
        publish(&client, &format!("delay=1h&key=order-{number}")).await;
        publish(&client, &format!("delay=2h&key=bill-{number}")).await;
        publish(&client, "").await;
    }
    let mut cancel =
        json!({"do": "cancel", "filter": {"key_prefix": "order-"}, "limit": 7, "dry_run": true});
    assert_eq!(act(&client, &cancel).await, (30, 0));
    assert_eq!(counts(&client).await["delayed"], 60);
    cancel["dry_run"] = json!(false);
    assert_eq!(act(&client, &cancel).await, (30, 30));
    assert_eq!(act(&client, &cancel).await, (0, 0), "repeated");
    let change = json!({"do": "change", "filter": {"state": "delayed"}, "change": {"delay": "5h"}});
    assert_eq!(act(&client, &change).await, (30, 30));
    let after = format!("state=delayed&due_from={}", in_hours(&client, 4).await);
    let later = list(&client, &after, 100).await;
    assert_eq!(later.len(), 30);
    let promote = json!({"do": "promote", "filter": {"key_prefix": "bill-1"}});
    assert_eq!(act(&client, &promote).await, (11, 11));
    assert_eq!(counts(&client).await["ready"], 41);
    // A job that a worker holds is not cancelled unless that is requested.
    let held = client.reserve("q", 5).await;
    let leased = json!({"do": "cancel", "filter": {"state": "leased"}});
    assert_eq!(act(&client, &leased).await, (5, 0));
    let revoke = json!({"do": "cancel", "filter": {"state": "leased"}, "running": "revoke"});
    assert_eq!(act(&client, &revoke).await, (5, 5));
    let lost = client
        .settle("ack", &json!({"leases": [held[0]["lease"]]}))
        .await;
    assert_eq!(lost[0]["outcome"], "gone");
    let purge = json!({"do": "purge", "filter": {"state": "ready"}, "limit": 10});
    assert_eq!(act(&client, &purge).await, (36, 36));
    let left = counts(&client).await;
    assert_eq!((&left["ready"], &left["delayed"]), (&json!(0), &json!(19)));
    for body in [
        json!({"do": "purge", "filter": {}}),
        json!({"do": "cancel", "filter": {"state": "dead"}}),
        json!({"do": "cancel", "filter": {}, "cursor": "0.0"}),
        json!({"do": "explode", "filter": {}}),
    ] {
        let refused = client.call("POST", "/queues/q/jobs/act", &body).await;
        refused.expect(400);
    }
}

/// An instant so many hours from now on, in ms.
async fn in_hours(client: &NativeClient, hours: i64) -> i64 {
    let ready = client.publish("other", "", "x").await.expect(201).json();
    let now = ready["run_at"].as_str().unwrap().parse::<Timestamp>();
    now.unwrap().as_millisecond() + hours * 3_600_000
}

/// The due times of the delayed jobs, in ms, in order.
async fn due_times(client: &NativeClient) -> Vec<i64> {
    let path = "/queues/q/jobs?state=delayed&limit=1000";
    let page = client.get(path).await.expect(200).json();
    assert!(page["next"].is_null());
    let items = page["items"].as_array().unwrap().iter();
    let due = items.map(|job| job["run_at"].as_str().unwrap().parse::<Timestamp>());
    let mut due: Vec<i64> = due.map(|due| due.unwrap().as_millisecond()).collect();
    due.sort_unstable();
    due
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_jobs_that_match_come_back_at_a_rate_up_to_ten_seconds_ahead() {
    const JOBS: u64 = 700;
    let stack = STACK.acquire().await;
    let client = NativeClient::new(stack.api(0), "respawned").await;
    bury(&client, 5, "other").await;
    bury(&client, 700, "smtp: 421").await;
    let mut body = json!({"do": "respawn", "filter": {"error_contains": "smtp"}, "dry_run": true});
    assert_eq!(act(&client, &body).await, (JOBS, 0));
    body["dry_run"] = json!(false);
    body["rate_per_second"] = json!(50);
    let mut came_back = 0;
    loop {
        let answer = act_once(&client, &body).await;
        came_back += answer["changed"].as_u64().unwrap();
        if answer["wait_ms"] != 0 {
            break;
        }
        body["cursor"] = answer["next"].clone();
    }
    // A call begins while less than 10 s are scheduled.
    assert!((500..=600).contains(&came_back), "{came_back}");
    let due = due_times(&client).await;
    // The first one was due at once, and further ones if the call was slow.
    assert!((due.len() as u64) < came_back);
    let spaces: Vec<i64> = due.windows(2).map(|two| two[1] - two[0]).collect();
    let took = due[due.len() - 1] - due[0];
    let planned = 20 * (due.len() as i64 - 1);
    // A call whose turn is over begins later.
    assert!(
        took >= planned,
        "{took} ms instead of {planned}: {spaces:?}"
    );
    // Interrupted, and begun again without a rate.
    let rest = json!({"do": "respawn", "filter": {"error_contains": "smtp"}});
    assert_eq!(
        act(&client, &rest).await,
        (JOBS - came_back, JOBS - came_back)
    );
    let held = counts(&client).await;
    let count = |state: &str| held[state].as_u64().unwrap();
    // The scheduled jobs become ready one by one.
    assert_eq!(
        (count("dead"), count("ready") + count("delayed")),
        (5, JOBS)
    );
    assert!(count("ready") > JOBS - came_back, "{held}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_dies_again_during_a_respawn_stays_dead() {
    let stack = STACK.acquire().await;
    let client = NativeClient::new(stack.api(0), "poison").await;
    bury(&client, 3, "first").await;
    let mut body = json!({"do": "respawn", "filter": {}, "limit": 1});
    let mut came_back = 0;
    loop {
        let answer = act_once(&client, &body).await;
        came_back += answer["changed"].as_u64().unwrap();
        assert!(came_back <= 3, "jobs that died again came back");
        if answer["next"].is_null() {
            break;
        }
        body["cursor"] = answer["next"].clone();
        let failed = |job: &Value| json!({"lease": job["lease"], "error": "again", "dead": true});
        let leases: Vec<Value> = match counts(&client).await["ready"].as_u64() {
            Some(0) => continue,
            _ => client.reserve("q", 1).await.iter().map(failed).collect(),
        };
        client.settle("fail", &json!({ "leases": leases })).await;
    }
    assert_eq!(came_back, 3);
    let again = list(&client, "state=dead&error_contains=again", 10).await;
    assert_eq!(again.len(), 3);
}
