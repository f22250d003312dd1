//! Schedules: `/v1/NAMESPACE/schedules`, and what pumps do with them.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tidegate_testkit::{Answer, NativeClient, Stack, eventually};

const SOON: Duration = Duration::from_secs(30);

fn daily() -> Value {
    json!({
        "queue": "mails", "cron": "0 9 * * MON-FRI", "time_zone": "Europe/Berlin", "job": {"payload": {"kind": "digest"}},
    })
}

/// A schedule whose jobs may overlap.
fn every(queue: &str, every: &str) -> Value {
    json!({"queue": queue, "every": every, "job": {"payload": 1}, "overlap": "allow"})
}

fn with(mut schedule: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        schedule[name] = value.clone();
    }
    schedule
}

async fn put(client: &NativeClient, name: &str, body: &Value) -> Answer {
    client
        .call("PUT", &format!("/schedules/{name}"), body)
        .await
}

async fn delete(client: &NativeClient, name: &str, headers: &[(&str, &str)]) -> Answer {
    let path = format!("/schedules/{name}");
    client.send("DELETE", &path, headers, b"").await
}

fn refused(answer: Answer, status: u16, code: &str) {
    assert_eq!(answer.expect(status).json()["code"], code);
}

/// How many jobs a queue has.
async fn jobs(client: &NativeClient, queue: &str) -> u64 {
    let shown = client
        .get(&format!("/queues/{queue}"))
        .await
        .expect(200)
        .json();
    let counts = shown["jobs"].as_object().unwrap().values();
    counts.map(|count| count.as_u64().unwrap()).sum()
}

async fn wait_for_jobs(client: &NativeClient, queue: &str, least: u64) {
    let has_jobs = async || match jobs(client, queue).await {
        found if found >= least => Ok(()),
        found => Err(found),
    };
    eventually("the schedule has published", SOON, has_jobs).await;
}

/// Waits until a pump leads all buckets, and has looked into each.
async fn wait_for_idle_pump(stack: &Stack) {
    stack.pump(0).wait_for_buckets(256).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
}

async fn next_run(client: &NativeClient, name: &str) -> Value {
    let shown = client.get(&format!("/schedules/{name}")).await.expect(200);
    shown.json()["next_run"].clone()
}

fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap()
}

#[tokio::test]
async fn a_schedule_is_set_shown_and_listed() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let created = put(&client, "digest", &daily()).await.expect(201);
    let shown = client.get("/schedules/digest").await.expect(200);
    assert_eq!(shown.json(), created.json());
    assert_eq!(shown.header("etag"), created.header("etag"));
    assert_eq!(shown.json()["config"]["job"], daily()["job"]);
    assert_eq!(shown.json()["config"]["overlap"], "keep");
    let next = client
        .get("/schedules/digest/next?count=3")
        .await
        .expect(200)
        .json();
    assert_eq!(next["runs"].as_array().unwrap().len(), 3);
    assert_eq!(next["runs"][0], shown.json()["next_run"]);
    let default = client
        .get("/schedules/digest/next")
        .await
        .expect(200)
        .json();
    assert_eq!(default["runs"].as_array().unwrap().len(), 10);

    put(&client, "a", &every("polls", "15m")).await.expect(201);
    let first = client.get("/schedules?limit=1").await.expect(200).json();
    assert_eq!(
        (&first["items"][0]["name"], &first["next"]),
        (&json!("a"), &json!("a"))
    );
    let second = client.get("/schedules?cursor=a").await.expect(200).json();
    assert_eq!(
        (&second["items"][0], &second["next"]),
        (&shown.json(), &Value::Null)
    );
    let other = NativeClient::new(stack.api(0), "other").await;
    assert_eq!(
        other.get("/schedules").await.expect(200).json()["items"],
        json!([])
    );
    refused(other.get("/schedules/a").await, 404, "schedule_not_found");

    stack.finish().await;
}

#[tokio::test]
async fn a_schedule_is_replaced_and_deleted_if_it_is_as_the_client_has_seen_it() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let created = put(&client, "digest", &daily()).await.expect(201);
    let replaced = put(
        &client,
        "digest",
        &with(daily(), &json!({"cron": "0 8 * * *"})),
    )
    .await;
    let replaced = replaced.expect(200);
    assert_ne!(replaced.header("etag"), created.header("etag"));
    let moved = put(
        &client,
        "digest",
        &with(daily(), &json!({"queue": "others"})),
    )
    .await;
    assert_eq!(moved.expect(400).json()["field"], "queue");
    let paused = put(&client, "digest", &with(daily(), &json!({"paused": true})))
        .await
        .expect(200);
    assert_eq!(paused.json()["next_run"], Value::Null);
    let none = client
        .get("/schedules/digest/next")
        .await
        .expect(200)
        .json();
    assert_eq!(none["runs"], json!([]));

    let old = created.header("etag").unwrap().to_owned();
    refused(
        delete(&client, "digest", &[("If-Match", &old)]).await,
        412,
        "version_mismatch",
    );
    let condition = [("If-None-Match", "*")];
    let body = daily().to_string();
    let taken = client
        .send("PUT", "/schedules/digest", &condition, body.as_bytes())
        .await;
    refused(taken, 412, "version_mismatch");
    let present = paused.header("etag").unwrap().to_owned();
    let deleted = delete(&client, "digest", &[("If-Match", &present)])
        .await
        .expect(200);
    assert_eq!(deleted.json(), json!({"outcome": "deleted"}));
    for path in ["/schedules/digest", "/schedules/digest/next"] {
        refused(client.get(path).await, 404, "schedule_not_found");
    }
    refused(
        delete(&client, "digest", &[]).await,
        404,
        "schedule_not_found",
    );
    stack.finish().await;
}

#[tokio::test]
async fn what_is_no_schedule_is_refused_and_the_field_is_named() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    for (change, field) in [
        (json!({"cron": "0 9 * *"}), "cron"),
        (json!({"cron": "0 0 30 2 *"}), "cron"),
        (json!({"time_zone": "Mars/Olympus"}), "time_zone"),
        (
            json!({"cron": null, "time_zone": null, "every": "99ms"}),
            "every",
        ),
        (json!({"every": "15m"}), "every"),
        (json!({"catch_up_window": "999ms"}), "catch_up_window"),
        (json!({"queue": "a b"}), "queue"),
        (json!({"job": {"payload": 1, "lease": "1ms"}}), "job.lease"),
    ] {
        let answer = put(&client, "digest", &with(daily(), &change))
            .await
            .expect(400);
        assert_eq!(answer.json()["field"], field, "{change} {answer}");
    }
    let answer = put(&client, "a%20b", &daily()).await.expect(400);
    assert_eq!(answer.json()["field"], "schedule");
    let answer = client
        .get("/schedules/digest/next?count=101")
        .await
        .expect(400);
    assert_eq!(answer.json()["field"], "count");
    assert_eq!(
        client.get("/schedules").await.expect(200).json()["items"],
        json!([])
    );
    let reader = NativeClient::with_scopes(stack.api(0), "shop", &["read"]).await;
    refused(put(&reader, "digest", &daily()).await, 403, "scope_missing");
    reader.get("/schedules").await.expect(200);
    stack.finish().await;
}

#[tokio::test]
async fn changes_without_a_condition_all_succeed_beside_each_other() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = &NativeClient::new(stack.api(0), "shop").await;
    put(client, "digest", &daily()).await.expect(201);
    let clients = (0..32).map(|_| async {
        for _ in 0..4 {
            put(client, "digest", &daily()).await.expect(200);
        }
    });
    join_all(clients).await;
    stack.finish().await;
}

#[tokio::test]
async fn an_idle_pump_publishes_for_a_new_schedule_and_stops_when_it_is_deleted() {
    let stack = Stack::builder().pumps(1).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    wait_for_idle_pump(&stack).await;
    put(&client, "polls", &every("polls", "100ms"))
        .await
        .expect(201);
    wait_for_jobs(&client, "polls", 3).await;
    let job = &client.reserve("polls", 1).await[0];
    assert_eq!(job["attributes"]["tidegate-schedule"], "polls", "{job}");
    let tick_ms: u64 = job["attributes"]["tidegate-tick-ms"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(tick_ms % 100, 0, "{job}");

    let pausing = with(every("polls", "100ms"), &json!({"paused": true}));
    put(&client, "polls", &pausing).await.expect(200);
    let found = jobs(&client, "polls").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(jobs(&client, "polls").await, found, "paused");
    put(&client, "polls", &every("polls", "100ms"))
        .await
        .expect(200);
    wait_for_jobs(&client, "polls", found + 2).await;
    delete(&client, "polls", &[]).await.expect(200);
    let found = jobs(&client, "polls").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(jobs(&client, "polls").await, found, "deleted");
    stack.finish().await;
}

#[tokio::test]
async fn begin_and_end_bound_the_ticks() {
    let stack = Stack::builder().pumps(1).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let starts_ms = now_ms() + 500;
    let bounds = json!({"starts_at": starts_ms, "ends_at": starts_ms + 450});
    put(&client, "polls", &with(every("polls", "100ms"), &bounds))
        .await
        .expect(201);
    let has_ended = async || match next_run(&client, "polls").await {
        Value::Null => Ok(()),
        next => Err(next),
    };
    eventually("the schedule has ended", SOON, has_ended).await;
    let jobs = client.reserve("polls", 100).await;
    let ticks = jobs.iter().map(|job| {
        let tick = &job["attributes"]["tidegate-tick-ms"];
        tick.as_str().unwrap().parse::<u64>().unwrap()
    });
    // `one` publishes the last one of ticks that are due at the same time.
    for tick_ms in ticks {
        assert!(
            (starts_ms..=starts_ms + 450).contains(&tick_ms),
            "{tick_ms} {starts_ms}"
        );
        assert_eq!((tick_ms - starts_ms) % 100, 0);
    }
    stack.finish().await;
}

#[tokio::test]
async fn overlap_keeps_one_job_and_a_full_or_closed_queue_gets_none() {
    let stack = Stack::builder().pumps(1).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    client
        .call("PUT", "/queues/closed/policy", &json!({"closed": true}))
        .await
        .expect(200);
    client
        .call("PUT", "/queues/full/policy", &json!({"max_jobs": 2}))
        .await
        .expect(200);
    put(
        &client,
        "kept",
        &with(every("kept", "100ms"), &json!({"overlap": "keep"})),
    )
    .await
    .expect(201);
    for queue in ["closed", "full"] {
        put(&client, queue, &every(queue, "100ms"))
            .await
            .expect(201);
    }
    wait_for_jobs(&client, "kept", 1).await;
    wait_for_jobs(&client, "full", 2).await;
    for (outcome, least) in [("kept", 5.0), ("left_out", 10.0)] {
        let counted = async || {
            let name = "tidegate_pump_schedule_ticks_total";
            let label = format!("outcome=\"{outcome}\"");
            match stack.pump(0).metric_with_label(name, &label).await {
                ticks if ticks >= least => Ok(()),
                ticks => Err(ticks),
            }
        };
        eventually("ticks are counted", SOON, counted).await;
    }
    for (queue, expected) in [("kept", 1), ("full", 2), ("closed", 0)] {
        assert_eq!(jobs(&client, queue).await, expected, "{queue}");
    }
    let shown = client
        .get("/queues/kept/jobs/key:schedule:kept")
        .await
        .expect(200)
        .json();
    assert_eq!(shown["key"], "schedule:kept");
    stack.finish().await;
}

#[tokio::test]
async fn ticks_without_a_pump_are_caught_up_as_the_schedule_says() {
    let stack = Stack::builder().pumps(1).lease("500ms").start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    stack.pump(0).kill();
    let tick_ms = now_ms() + 2000;
    let short = json!({"catch_up": "all", "catch_up_window": "5s"});
    let schedules = [
        ("one", json!({"catch_up": "one"}), 1),
        ("all", json!({"catch_up": "all"}), 2),
        ("none", json!({"catch_up": "none"}), 0),
        ("short", short, 0),
    ];
    for (name, rule, _) in &schedules {
        // Two ticks, 1 s apart, and none in the next hours.
        let bounds = json!({"starts_at": tick_ms, "ends_at": tick_ms + 1000});
        let schedule = with(with(every(name, "1s"), &bounds), rule);
        put(&client, name, &schedule).await.expect(201);
    }
    tokio::time::sleep(Duration::from_millis(tick_ms + 12_000 - now_ms())).await;
    stack.pump(0).restart().await;
    for (name, _, _) in &schedules {
        let has_ended = async || match next_run(&client, name).await {
            Value::Null => Ok(()),
            next => Err(next),
        };
        eventually("the ticks are handled", SOON, has_ended).await;
    }
    for (name, _, expected) in &schedules {
        assert_eq!(jobs(&client, name).await, *expected, "{name}");
    }
    stack.finish().await;
}
