//! Quotas of namespaces, which operators set on the admin port.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tidegate_testkit::{Answer, Daemon, NativeClient, RedisControl, Stack, eventually};

use crate::namespace_limits::limited_kinds;

/// The time in which a quota is in force in all processes, on a busy machine.
const SPREAD: Duration = Duration::from_secs(10);

#[track_caller]
fn refused(answer: Answer, status: u16, code: &str, limit: &str) {
    let problem: Value = answer.expect(status).json();
    assert_eq!(problem["code"], code, "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("`{limit}`")), "{detail}");
    assert_eq!(problem["applied"], "no", "{problem}");
}

/// What `GET /v1/NAMESPACE` shows of a limit: how much is used, and the limit.
async fn limit(client: &NativeClient, name: &str) -> (Value, Value) {
    let shown = client.get("").await.expect(200).json();
    let limits = shown["limits"].as_array().unwrap();
    let row = limits.iter().find(|row| row["name"] == name).unwrap();
    (row["used"].clone(), row["max"].clone())
}

async fn publish(client: &NativeClient, count: usize) {
    for number in 0..count {
        let answer = client.publish("q", "", &number.to_string()).await;
        answer.expect(201);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_is_set_shown_listed_and_deleted() {
    let config = "[namespace_limits]\njobs = 3";
    let stack = Stack::builder().pumps(0).api_config(config).start().await;
    let api = stack.api(0);
    let call = async |method, headers: &[(&str, &str)], body: &str| {
        api.admin_call(method, "/namespaces/shop", headers, body)
            .await
    };
    let none = call("GET", &[], "").await.expect(200);
    assert_eq!(
        (none.header("etag"), &none.json()["quota"]),
        (Some("\"0\""), &json!({}))
    );
    assert_eq!(none.json()["limits"]["jobs"], 3);
    let set = api
        .set_quota("shop", &json!({"jobs": 5, "relays": null}))
        .await;
    let shown = call("GET", &[], "").await.expect(200);
    assert_eq!(shown.json(), set.json());
    assert_eq!(shown.json()["quota"], json!({"jobs": 5}));
    assert_eq!(shown.json()["limits"]["relays"], 100);
    let etag = shown.header("etag").unwrap().to_owned();
    assert_eq!(etag.trim_matches('"'), shown.json()["revision"]);
    let listed = api
        .admin_call("GET", "/namespaces", &[], "")
        .await
        .expect(200);
    assert_eq!(listed.json()["items"], json!([shown.json()]));
    assert_eq!(listed.json()["defaults"]["jobs"], 3);

    call("PUT", &[("If-Match", "\"0\"")], r#"{"jobs":6}"#)
        .await
        .expect(412);
    call("PUT", &[("If-None-Match", "*")], r#"{"jobs":6}"#)
        .await
        .expect(412);
    call("PUT", &[("If-Match", "7")], r#"{"jobs":6}"#)
        .await
        .expect(400);
    call("PUT", &[("If-Match", &etag)], r#"{"jobs":6}"#)
        .await
        .expect(200);
    let client = NativeClient::new(api, "shop").await;
    assert_eq!(limit(&client, "jobs").await, (json!(0), json!(6)));
    call("DELETE", &[("If-Match", &etag)], "").await.expect(412);
    call("DELETE", &[], "").await.expect(200);
    assert_eq!(limit(&client, "jobs").await, (json!(0), json!(3)));
    assert_eq!(
        limit(&client, "waiting_consumers").await,
        (json!(0), Value::Null)
    );
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_quota_is_refused_and_changes_nothing() {
    let stack = Stack::builder().pumps(0).start().await;
    let api = stack.api(0);
    for (body, text) in [
        (r#"{"jobs":0}"#, "jobs should be from 1 to 1000000000000"),
        (r#"{"queues":99}"#, "queues should be from 100 to 10000000"),
        (r#"{"bytes":1}"#, "unknown field `bytes`"),
        (r#"{"jobs":"many"}"#, "invalid type: string"),
        (r#"{"jobs":-1}"#, "invalid value: integer `-1`"),
        ("[1,2,3]", "invalid type: sequence"),
        ("", "EOF"),
    ] {
        let answer = api.admin_call("PUT", "/namespaces/shop", &[], body).await;
        let error = answer.expect(400).json()["error"].to_string();
        assert!(
            error.contains("invalid quota: ") && error.contains(text),
            "{body}: {error}"
        );
    }
    let answer = api.admin_call("PUT", "/namespaces/a.b", &[], "{}").await;
    answer.expect(400);
    let listed = api
        .admin_call("GET", "/namespaces", &[], "")
        .await
        .expect(200);
    assert_eq!(listed.json()["items"], json!([]));
    // A quota that an operator has damaged limits nothing, and is named.
    let mut damage = redis::cmd("HSET");
    let table = damage.arg("tg:namespaces").arg("shop");
    table.arg("1.00000000 {\"jobs\":0}");
    let redis = redis::Client::open(stack.redis.url()).unwrap();
    let () = damage.query(&mut redis.get_connection().unwrap()).unwrap();
    api.admin_call("GET", "/namespaces/shop", &[], "")
        .await
        .expect(409);
    let listed = api
        .admin_call("GET", "/namespaces", &[], "")
        .await
        .expect(200);
    assert_eq!(listed.json()["damaged"], json!(["shop"]));
    api.set_quota("shop", &json!({"jobs": 7})).await;
    stack.finish().await;
}

/// Everything but a publish works in a full namespace, and room that becomes free is found.
/// Publishes until there is room, and returns how often there was none: on a busy machine a count takes long, and the
/// last one is used.
async fn until_stored(publish: impl AsyncFn() -> Answer) -> usize {
    let began = tokio::time::Instant::now();
    for refused in 0.. {
        let answer = publish().await;
        if answer.status == 201 {
            return refused;
        }
        assert!(began.elapsed() < SPREAD, "{}", answer.text());
    }
    unreachable!("it is stored, or too late")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_namespace_takes_no_jobs_and_ends_those_that_it_has() {
    let stack = Stack::builder().start().await;
    let api = stack.api(0);
    let client = NativeClient::new(api, "shop").await;
    api.set_quota("shop", &json!({"jobs": 10})).await;
    publish(&client, 4).await;
    client.publish("q", "key=k&delay=1h", "1").await.expect(201);
    let is_full = async |options: &str| {
        let answer = client.publish("q", options, "1").await;
        refused(answer, 409, "namespace_full", "jobs");
    };
    let lmstfy = stack.queue_in("shop", "other").await;
    for _ in 0..5 {
        lmstfy.publish("1").send().await.unwrap().expect(201);
    }
    is_full("").await;
    is_full("key=n").await;
    let answer = lmstfy.publish("1").send().await.unwrap().expect(429);
    let text = "the namespace has too many jobs, please retry later";
    assert_eq!(answer.json()["error"], text);
    let other = NativeClient::new(api, "other").await;
    other.publish("q", "", "1").await.expect(201);

    // A job that is there is replaced, and a request is repeated.
    let replaced = client
        .publish("q", "key=k&if_exists=replace&delay=1h", "2")
        .await;
    replaced.expect(200);
    client.get("/queues/q/jobs").await.expect(200);
    client.get("/queues/q/jobs/key:k").await.expect(200);
    let leased = client.reserve("q", 4).await;
    let lease = |number: usize| json!({"leases": [leased[number]["lease"]]});
    assert_eq!(
        client.settle("touch", &lease(0)).await[0]["outcome"],
        "extended"
    );
    assert_eq!(
        client.settle("release", &lease(0)).await[0]["outcome"],
        "released"
    );
    let failed = json!({"leases": [{"lease": leased[1]["lease"], "error": "e"}]});
    client.settle("fail", &failed).await;
    is_full("").await;

    assert_eq!(client.settle("ack", &lease(2)).await[0]["outcome"], "done");
    let early = until_stored(async || client.publish("q", "", "1").await).await;
    is_full("").await;
    let cancelled = client
        .send("DELETE", "/queues/q/jobs/key:k", &[], b"")
        .await;
    cancelled.expect(200);
    let early = early + until_stored(async || lmstfy.publish("1").send().await.unwrap()).await;
    lmstfy.publish("1").send().await.unwrap().expect(429);
    let metrics = api.metrics().await;
    let refused = 6 + early;
    let refusals = format!(
        "tidegate_namespace_refused_total{{limit=\"jobs\",namespace=\"shop\",pool=\"default\"}} {refused}"
    );
    assert!(metrics.contains(&refusals), "{refusals}");
    assert!(metrics.contains("tidegate_namespace_limit{limit=\"jobs\",namespace=\"shop\"} 10"));
    stack.finish().await;
}

/// A batch that is not atomic is stored as far as there is room; an atomic one as a whole or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_are_stored_as_far_as_the_namespace_has_room() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    stack.api(0).set_quota("shop", &json!({"jobs": 10})).await;
    let jobs = |count| vec![json!({"payload": 1}); count];
    let batch = async |count, atomic| {
        let body = json!({"jobs": jobs(count), "atomic": atomic});
        client.call("POST", "/queues/q/jobs/batch", &body).await
    };
    let answer = batch(7, false).await.expect(200).json();
    assert_eq!(answer["results"].as_array().unwrap().len(), 7);
    refused(batch(4, true).await, 409, "namespace_full", "jobs");
    let answer = batch(5, false).await.expect(200).json();
    let results = answer["results"].as_array().unwrap();
    let stored = results
        .iter()
        .filter(|it| it["outcome"] == "created")
        .count();
    assert_eq!(stored, 3, "{answer}");
    assert_eq!(results[3]["problem"]["code"], "namespace_full", "{answer}");
    let bulk = ["1".to_owned(), "2".to_owned()];
    let lmstfy = stack.queue_in("shop", "q").await;
    lmstfy.publish_bulk(&bulk).send().await.unwrap().expect(429);
    stack.finish().await;
}

/// What replaces a job needs no room, but a unit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacements_in_a_full_namespace_take_units() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let job = |number| json!({"payload": 1, "key": format!("k{number}"), "if_exists": "replace"});
    let mut jobs: Vec<Value> = (0..20).map(job).collect();
    let batch = async |jobs: &[Value]| {
        let body = json!({"jobs": jobs});
        client.call("POST", "/queues/q/jobs/batch", &body).await
    };
    batch(&jobs).await.expect(200);
    let lmstfy = stack.queue_in("shop", "other").await;
    let id = lmstfy.publish("1").id().await;
    let quota = json!({"jobs": 21, "publishes_per_second": 5});
    stack.api(0).set_quota("shop", &quota).await;
    jobs.insert(2, json!({"payload": 1}));
    let answer = batch(&jobs).await.expect(200).json();
    let results = answer["results"].as_array().unwrap();
    let replaced = results.iter().filter(|it| it["outcome"] == "replaced");
    let replaced = replaced.count();
    // More units may come until the units are taken, on a busy machine.
    assert!((4..10).contains(&replaced), "{replaced}: {answer}");
    assert_eq!(results[2]["problem"]["code"], "namespace_full", "{answer}");
    let last = &results[20]["problem"];
    assert_eq!(last["code"], "rate_limited", "{answer}");
    let quota = json!({"jobs": 21});
    stack.api(0).set_quota("shop", &quota).await;
    let republished = lmstfy.republish(&id, "2").send().await.unwrap();
    republished.expect(201);
    lmstfy.publish("1").send().await.unwrap().expect(429);
    stack.finish().await;
}

/// A process that cannot count does not take the namespace for empty: Redis would execute later what it receives now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_namespace_gets_no_jobs_while_redis_is_paused() {
    const JOBS: usize = 20;
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let quota = json!({"jobs": JOBS});
    stack.api(0).set_quota("shop", &quota).await;
    publish(&client, JOBS).await;
    client.publish("q", "", "1").await.expect(409);
    let mut redis = RedisControl::connect(&stack.redis.url()).await;
    redis.pause_clients(Duration::from_secs(8)).await;
    let began = tokio::time::Instant::now();
    let retrying = (0..16).map(async |_| {
        while began.elapsed() < Duration::from_secs(8) {
            let answer = client.publish("q", "", "1").await;
            assert_ne!(answer.status, 201);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    join_all(retrying).await;
    let is_back = async || match client.get("/queues/q").await {
        answer if answer.status == 200 => Ok(answer.json()["jobs"]["ready"].clone()),
        answer => Err(answer.text()),
    };
    let ready = eventually("Redis is back", SPREAD, is_back).await;
    assert_eq!(ready, JOBS);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishes_of_a_second_are_limited_on_both_wires() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    // A unit in 100 ms: what comes back in the test is seen by the clock.
    stack
        .api(0)
        .set_quota("shop", &json!({"publishes_per_second": 10}))
        .await;
    let began = tokio::time::Instant::now();
    let (mut stored, mut refusals) = (0, 0);
    let lmstfy = stack.queue_in("shop", "other").await;
    while began.elapsed() < Duration::from_secs(2) {
        let answer = client.publish("q", "key=k&if_exists=replace", "1").await;
        match answer.status {
            200 | 201 => stored += 1,
            _ => {
                let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
                assert_eq!(seconds, 1);
                refused(answer, 429, "rate_limited", "publishes_per_second");
                refusals += 1;
            }
        }
        let answer = lmstfy.publish("1").send().await.unwrap();
        match answer.status {
            201 => stored += 1,
            _ => {
                let text = "publishes_per_second of the namespace reach the limit rate, please retry later";
                assert_eq!(answer.expect(429).json()["error"], text);
                refusals += 1;
            }
        }
    }
    let allowed = 10 + began.elapsed().as_millis() / 100 + 1;
    assert!(stored as u128 <= allowed, "{stored} of {allowed}");
    assert!(stored >= 25, "{stored}");
    assert!(refusals > 0);
    let jobs = vec![json!({"payload": 1}); 11];
    let body = json!({"jobs": jobs, "atomic": true});
    let answer = client.call("POST", "/queues/q/jobs/batch", &body).await;
    assert!(
        answer.text().contains("send fewer jobs"),
        "{}",
        answer.text()
    );
    refused(answer, 429, "rate_limited", "publishes_per_second");
    let other = NativeClient::new(stack.api(0), "other").await;
    publish(&other, 20).await;
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_consumers_of_a_namespace_are_limited() {
    let stack = Stack::builder().pumps(0).start().await;
    let api = stack.api(0);
    let client = NativeClient::new(api, "shop").await;
    api.set_quota("shop", &json!({"waiting_consumers": 2}))
        .await;
    let reserve = json!({"queues": ["q"], "max_jobs": 1, "wait": "30s"});
    let waiting = (0..2).map(|_| {
        let (client, reserve) = (client.clone(), reserve.clone());
        tokio::spawn(async move { client.call("POST", "/reserve", &reserve).await })
    });
    let waiting: Vec<_> = waiting.collect();
    api.wait_for_waiting_consumers(2).await;
    assert_eq!(
        limit(&client, "waiting_consumers").await,
        (json!(2), json!(2))
    );
    let third = client.call("POST", "/reserve", &reserve).await;
    refused(third, 429, "too_many_waiting", "waiting_consumers");
    let lmstfy = stack.queue_in("shop", "q").await;
    let answer = lmstfy
        .consume()
        .timeout_s(30)
        .send()
        .await
        .unwrap()
        .expect(429);
    let text =
        "too many waiting consumers in this namespace (waiting_consumers), please retry later";
    assert_eq!(answer.json()["error"], text);
    // A reserve that does not wait, and consumers of others.
    let now = json!({"queues": ["q"], "max_jobs": 1});
    client.call("POST", "/reserve", &now).await.expect(200);
    let other = NativeClient::new(api, "other").await;
    other.publish("q", "", "1").await.expect(201);
    assert_eq!(other.reserve("q", 1).await.len(), 1);
    publish(&client, 2).await;
    for waiter in waiting {
        waiter.await.unwrap().expect(200);
    }
    stack.finish().await;
}

/// The kinds that scripts count: the quota of a namespace has its own number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_overrides_the_limits_of_names() {
    let stack = Stack::builder().pumps(0).start().await;
    let api = stack.api(0);
    let client = NativeClient::new(api, "shop").await;
    let quota = json!({"policies": 1, "limits": 1, "schedules": 1, "relays": 1, "api_keys": 2});
    api.set_quota("shop", &quota).await;
    let other = NativeClient::new(api, "other").await;
    for (kind, path, body) in limited_kinds() {
        let set = async |client: &NativeClient, name| {
            client.call("PUT", &path.replace("NAME", name), &body).await
        };
        assert!(set(&client, "one").await.status < 300, "{kind}");
        refused(set(&client, "two").await, 409, "namespace_full", kind);
        assert_eq!(limit(&client, kind).await, (json!(1), json!(1)), "{kind}");
        for name in ["one", "two"] {
            assert!(set(&other, name).await.status < 300, "{kind}");
        }
    }
    let key = json!({"description": "d", "scopes": ["publish"]});
    client.call("POST", "/keys", &key).await.expect(201);
    let full = client.call("POST", "/keys", &key).await;
    refused(full, 409, "namespace_full", "api_keys");
    assert_eq!(limit(&client, "api_keys").await, (json!(2), json!(2)));
    stack.finish().await;
}

async fn eventually_limited(api: &Daemon, client: &NativeClient, max: Value) {
    let look = async || match limit(client, "jobs").await {
        (_, found) if found == max => Ok(()),
        (_, found) => Err(found),
    };
    eventually(&format!("{} knows the quota", api.url()), SPREAD, look).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_is_in_force_in_other_processes_and_its_deletion_too() {
    let stack = Stack::builder().pumps(0).apis(2).start().await;
    let (one, other) = (stack.api(0), stack.api(1));
    let client = NativeClient::new(other, "shop").await;
    publish(&client, 3).await;
    one.set_quota("shop", &json!({"jobs": 4})).await;
    eventually_limited(other, &client, json!(4)).await;
    // The first count finds what was published before.
    publish(&client, 1).await;
    refused(
        client.publish("q", "", "1").await,
        409,
        "namespace_full",
        "jobs",
    );
    one.admin_call("DELETE", "/namespaces/shop", &[], "")
        .await
        .expect(200);
    eventually_limited(other, &client, Value::Null).await;
    publish(&client, 10).await;
    stack.finish().await;
}
