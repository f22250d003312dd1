//! Actions that move their jobs to where they are read later: they end, reach all, and change none twice.

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, SharedStack, Stack};

use crate::job_lists::{act, act_once, counts, id_of, list, publish};

static STACK: SharedStack = SharedStack::new(|| Stack::builder().pumps(0));

const JOBS: usize = 150;

async fn publish_many(client: &NativeClient, delay: &Value) {
    let job = match delay {
        Value::Null => json!({"payload": 1}),
        delay => json!({"payload": 1, "delay": delay}),
    };
    let jobs = vec![job; JOBS];
    let body = json!({ "jobs": jobs });
    let answer = client.call("POST", "/queues/q/jobs/batch", &body).await;
    answer.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_many_jobs_changes_each_once() {
    let stack = STACK.acquire().await;
    for (name, delay, change, state) in [
        ("later", json!("1h"), json!({"delay": "2h"}), "delayed"),
        ("sooner", json!("72h"), json!({"delay": "1h"}), "delayed"),
        ("near", json!("30s"), json!({"delay": "50s"}), "delayed"),
        ("now", json!("30s"), json!({"delay": "0ms"}), "ready"),
        (
            "far-now",
            json!("3h"),
            json!({"delay": "0ms", "start_within": "1h"}),
            "ready",
        ),
        ("waits", json!(null), json!({"delay": "5h"}), "delayed"),
        (
            "limited",
            json!(null),
            json!({"start_within": "1h"}),
            "ready",
        ),
        (
            "both",
            json!(null),
            json!({"delay": "1m", "start_within": "1h"}),
            "delayed",
        ),
        (
            "kept",
            json!("3h"),
            json!({"start_within": "1h"}),
            "delayed",
        ),
    ] {
        let client = NativeClient::new(stack.api(0), &format!("changed-{name}")).await;
        publish_many(&client, &delay).await;
        let body = json!({"do": "change", "filter": {}, "change": change, "limit": 60});
        let sums = act(&client, &body).await;
        assert_eq!(sums, (JOBS as u64, JOBS as u64), "{name}");
        assert_eq!(counts(&client).await[state], JOBS, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_ends_while_jobs_are_published() {
    let stack = STACK.acquire().await;
    let client = NativeClient::new(stack.api(0), "growing").await;
    for _ in 0..5 {
        publish(&client, "").await;
    }
    let mut body = json!({"do": "cancel", "filter": {}, "limit": 1});
    let mut cancelled = 0;
    loop {
        let answer = act_once(&client, &body).await;
        cancelled += answer["changed"].as_u64().unwrap();
        if answer["next"].is_null() {
            break;
        }
        assert!(cancelled <= 5, "jobs that were published later");
        body["cursor"] = answer["next"].clone();
        publish(&client, "").await;
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        publish(&client, "").await;
    }
    assert_eq!(cancelled, 5);
}

/// A job that was promoted and has failed since waits for its next attempt: that delay stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_fails_during_an_action_is_promoted_once() {
    let stack = STACK.acquire().await;
    let client = NativeClient::new(stack.api(0), "promoted").await;
    for delay in ["1h", "2h", "3h"] {
        publish(&client, &format!("delay={delay}")).await;
    }
    let mut body = json!({"do": "promote", "filter": {}, "limit": 1});
    let mut promoted = 0;
    loop {
        let answer = act_once(&client, &body).await;
        promoted += answer["changed"].as_u64().unwrap();
        if answer["next"].is_null() {
            break;
        }
        assert!(promoted <= 3);
        body["cursor"] = answer["next"].clone();
        if counts(&client).await["ready"] == 1 {
            let held = client.reserve("q", 1).await;
            let failed = json!({"lease": held[0]["lease"], "error": "again", "retry_in": "30s"});
            client.settle("fail", &json!({ "leases": [failed] })).await;
        }
    }
    assert_eq!(promoted, 3);
    assert_eq!(counts(&client).await["delayed"], 3);
}

/// The same action would match them for as long as workers hold them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_jobs_are_asked_to_stop_once() {
    let stack = STACK.acquire().await;
    let client = NativeClient::new(stack.api(0), "asked").await;
    for _ in 0..20 {
        publish(&client, "").await;
    }
    client.reserve("q", 20).await;
    let ask = json!({"do": "cancel", "filter": {}, "running": "ask", "limit": 7});
    assert_eq!(act(&client, &ask).await, (20, 20));
    assert_eq!(act(&client, &ask).await, (0, 0));
    assert_eq!(counts(&client).await["leased"], 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_that_is_broken_is_refused() {
    let stack = STACK.acquire().await;
    let client = NativeClient::new(stack.api(0), "cursors").await;
    let id = publish(&client, "delay=1h").await;
    for cursor in [
        "0.0.far:99999999999999999999",
        "0.0.far:9999999999999",
        "0.0.far:5:1:1:1",
        "0.0.ready:99999999999999999999:1:1:1:1",
        "0.0.ready:1:1",
        "0.0.near:99999999999999999999:1",
        "0.0.done:99999999999999999999:0:0:0",
        "0.0.done:0:0:200:0",
        "2.0",
        "0.64",
    ] {
        let path = format!("/queues/q/jobs?cursor={cursor}");
        let refused = client.get(&path).await.expect(400).json();
        assert_eq!(refused["field"], "cursor", "{cursor}");
    }
    for cursor in [
        "18446744073709551615.0.0.0",
        "0.18446744073709551615.0.0",
        "0.0.2.0",
    ] {
        for verb in ["respawn", "promote"] {
            let body = json!({"do": verb, "filter": {}, "cursor": cursor});
            let refused = client.call("POST", "/queues/q/jobs/act", &body).await;
            assert_eq!(refused.expect(400).json()["field"], "cursor", "{cursor}");
        }
    }
    // Valid numbers that no call has returned read other jobs, or none.
    for place in [
        "far:4:281474976710655:9007199254740991:0",
        "near:281474976710655:1",
        "done:18446744073709551615:1:1:1",
    ] {
        client
            .get(&format!("/queues/q/jobs?cursor=0.0.{place}"))
            .await
            .expect(200);
    }
    let body = json!({"do": "respawn", "filter": {}, "cursor": "1.281474976710655000.0.0", "rate_per_second": 1});
    let wait_ms = act_once(&client, &body).await["wait_ms"].as_u64().unwrap();
    assert!(wait_ms <= 20_000, "{wait_ms}");
    // The lanes at the cursor of a respawn were closed meanwhile: it is complete, and not called again for ever.
    let body =
        json!({"do": "respawn", "filter": {}, "cursor": "1.20000000.0.1", "rate_per_second": 1});
    let page = act_once(&client, &body).await;
    assert_eq!(
        (&page["next"], &page["wait_ms"]),
        (&Value::Null, &json!(0)),
        "{page}"
    );
    assert_eq!(list(&client, "", 10).await, [id]);
}

/// A record that was damaged does not hide the other jobs, or protect them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_records_do_not_block_lists_and_actions() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "damaged").await;
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.push(publish(&client, &format!("key=zk{number}zz")).await);
    }
    let damage = r"
        for _, chunk in ipairs(redis.call('KEYS', 'tg:*:c:*')) do
          local fields = redis.call('HGETALL', chunk)
          for i = 1, #fields, 2 do
            if string.find(fields[i + 1], 'zk1zz', 1, true) then
              redis.call('HSET', chunk, fields[i], string.sub(fields[i + 1], 1, 36))
            end
          end
        end";
    let redis = redis::Client::open(stack.redis.url()).unwrap();
    let mut eval = redis::cmd("EVAL");
    eval.arg(damage).arg(0);
    eval.exec(&mut redis.get_connection().unwrap()).unwrap();
    assert_eq!(list(&client, "", 10).await, ids);
    let cancel = json!({"do": "cancel", "filter": {"key_prefix": "zk"}});
    assert_eq!(act(&client, &cancel).await, (2, 2));
    let all = json!({"do": "change", "filter": {}, "change": {"delay": "1h"}});
    assert_eq!(act(&client, &all).await, (1, 1));
    let all = json!({"do": "cancel", "filter": {}});
    assert_eq!(act(&client, &all).await, (1, 1));
}

/// What is kept of a job that is done has neither.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_are_done_match_no_key_and_no_attribute() {
    let stack = STACK.acquire().await;
    let client = NativeClient::new(stack.api(0), "done").await;
    let id = publish(&client, "key=order-1&retain=1h").await;
    let held = client.reserve("q", 1).await;
    assert_eq!(id_of(&held[0]), id);
    client
        .settle("ack", &json!({"leases": [held[0]["lease"]]}))
        .await;
    assert_eq!(list(&client, "state=done", 10).await, [id]);
    let none: [String; 0] = [];
    assert_eq!(list(&client, "state=done&key_prefix=order", 10).await, none);
}
