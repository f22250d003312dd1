//! Policies at the admin port.

use serde_json::{Value, json};
use tidegate_testkit::{QueueClient, Stack, connect_to_redis, eventually};

use crate::fixture::{PATIENCE, admin, policy, read_now};

fn defaults() -> Value {
    json!({
        "lease_ms": 60000,
        "retry": {
            "first_ms": 1000,
            "factor": 2.0,
            "max_ms": 3_600_000,
            "jitter": 0.1,
            "max_attempts": 10
        },
        "retain_ms": 0,
        "paused": false,
        "paused_until": null,
        "closed": false,
        "max_jobs": null,
        "max_running": null,
        "groups": {"max_running": null},
        "rate": null,
        "limit": null,
        "keep_dead_ms": null
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_is_shown_replaced_changed_and_removed() {
    let stack = Stack::builder().apis(2).pumps(0).start().await;
    let (api, other) = (stack.api(0), stack.api(1));
    let queue = stack.queue("q").await;
    assert_eq!(policy(api, &queue).await, (defaults(), "\"0\"".to_owned()));
    let body = r#"{"lease":"30s","retry":{"max_attempts":3},"max_jobs":7}"#;
    let put = queue
        .try_policy(api, "PUT", body, None)
        .await
        .unwrap()
        .expect(200);
    let mut expected = defaults();
    expected["lease_ms"] = json!(30000);
    expected["retry"]["max_attempts"] = json!(3);
    expected["max_jobs"] = json!(7);
    assert_eq!(put.json(), expected);
    let etag = put.header("etag").unwrap();
    assert_eq!(
        policy(other, &queue).await,
        (expected.clone(), etag.to_owned())
    );
    // A patch keeps what it does not name, and null is the default.
    let patched = queue
        .patch_policy(other, r#"{"closed":true,"max_jobs":null}"#)
        .await;
    expected["closed"] = json!(true);
    expected["max_jobs"] = Value::Null;
    assert_eq!(patched.json(), expected);
    assert_ne!(patched.header("etag"), Some(etag));
    // A replacement forgets what it does not name.
    let put = queue
        .try_policy(api, "PUT", r#"{"paused":true}"#, None)
        .await;
    assert_eq!(put.unwrap().expect(200).json()["closed"], json!(false));
    let listed = admin(other, "GET", "/v1/*/policies")
        .await
        .expect(200)
        .json();
    assert_eq!(listed["items"][0]["queue"], json!("q"));
    assert_eq!(listed["items"][0]["policy"]["paused"], json!(true));
    assert_eq!(listed["next"], Value::Null);
    let deleted = queue
        .try_policy(other, "PUT", "{}", None)
        .await
        .unwrap()
        .expect(200);
    assert_eq!(deleted.json(), defaults());
    assert_eq!(deleted.header("etag"), Some("\"0\""));
    let listed = admin(api, "GET", "/v1/*/policies").await.expect(200);
    assert_eq!(listed.json(), json!({"items": [], "next": null}));
    // A queue with a policy only is no queue.
    queue.patch_policy(api, r#"{"max_jobs":7}"#).await;
    assert_eq!(admin(api, "GET", "/info").await.json(), json!({}));
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_with_an_outdated_etag_is_refused() {
    let stack = Stack::builder().pumps(0).start().await;
    let api = stack.api(0);
    let queue = stack.queue("q").await;
    let (_, none) = policy(api, &queue).await;
    let set = async |method: &str, body: &str, etag: &str| {
        let answer = queue.try_policy(api, method, body, Some(etag)).await;
        answer.unwrap()
    };
    let first = set("PUT", r#"{"max_jobs":1}"#, &none).await.expect(200);
    let first = first.header("etag").unwrap().to_owned();
    for (method, body) in [
        ("PUT", r#"{"max_jobs":2}"#),
        ("PATCH", r#"{"closed":true}"#),
        ("PUT", "{}"),
    ] {
        for outdated in [&none[..], "\"1.00000000\""] {
            let refused = set(method, body, outdated).await.expect(412);
            assert!(refused.text().contains("version_mismatch"), "{refused}");
        }
        for invalid in ["1", "\"x\"", "W/\"0\"", "\"0\",\"0\""] {
            set(method, body, invalid).await.expect(400);
        }
    }
    assert_eq!(policy(api, &queue).await.1, first);
    let second = set("PATCH", r#"{"closed":true}"#, &first).await.expect(200);
    let second = second.header("etag").unwrap();
    assert_ne!(second, first);
    set("PUT", "{}", second).await.expect(200);
    set("PUT", "{}", "*").await.expect(200);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_of_two_apis_at_the_same_time_are_all_kept() {
    let stack = Stack::builder().apis(2).pumps(0).start().await;
    let queue = stack.queue("q").await;
    for round in 1..=10 {
        let (lease, jobs) = (1000 + round, round);
        let bodies = [
            format!(r#"{{"lease":"{lease}ms"}}"#),
            format!(r#"{{"max_jobs":{jobs}}}"#),
            format!(r#"{{"retain":"{round}ms"}}"#),
            format!(r#"{{"retry":{{"max_attempts":{round}}}}}"#),
        ];
        let patches = bodies.iter().enumerate();
        let patches = patches.map(|(at, body)| queue.patch_policy(stack.api(at % 2), body));
        futures_util::future::join_all(patches).await;
        let (shown, _) = policy(stack.api(0), &queue).await;
        let fields = [
            &shown["lease_ms"],
            &shown["max_jobs"],
            &shown["retain_ms"],
            &shown["retry"]["max_attempts"],
        ];
        assert_eq!(
            fields,
            [&json!(lease), &json!(jobs), &json!(round), &json!(round)]
        );
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_request_is_refused_with_the_reason_and_changes_nothing() {
    let stack = Stack::builder().pumps(0).start().await;
    let api = stack.api(0);
    let queue = stack.queue("q").await;
    queue.patch_policy(api, r#"{"max_jobs":5}"#).await;
    let before = policy(api, &queue).await;
    for (body, reason) in [
        ("", "JSON object"),
        ("[1]", "JSON object"),
        (r#"{"max_job":1}"#, "unknown field"),
        (r#"{"max_jobs":0}"#, "max_jobs must be at least 1"),
        (r#"{"max_jobs":1000000000001}"#, "max_jobs should be from 1"),
        (
            r#"{"max_jobs":99999999999999999999}"#,
            "invalid type: floating point",
        ),
        (r#"{"lease":"86400001ms"}"#, "a lease must be from 100 ms"),
        (r#"{"lease_ms":60000}"#, "unknown field `lease_ms`"),
        (r#"{"closed":"yes"}"#, "invalid type: string"),
        (r#"{"paused_until":"soon"}"#, r#""field":"paused_until""#),
        (
            r#"{"paused":false,"paused_until":1795263000000}"#,
            "paused is false",
        ),
    ] {
        for method in ["PUT", "PATCH"] {
            let answer = queue
                .try_policy(api, method, body, None)
                .await
                .unwrap()
                .expect(400);
            let error = answer.text();
            assert!(error.contains(reason), "{method} {body}: {error}");
        }
    }
    assert_eq!(policy(api, &queue).await, before);
    let long = "q".repeat(256);
    for (path, status) in [
        ("/v1/n/queues/q/policy?pool=nowhere".to_owned(), 400),
        ("/v1/*/policies?pool=nowhere".to_owned(), 400),
        ("/v1/*/policies?cursor=nothing".to_owned(), 400),
        ("/v1/n/queues/a.b/policy".to_owned(), 400),
        ("/v1/*/queues/q/policy".to_owned(), 400),
        (format!("/v1/n/queues/{long}/policy"), 400),
    ] {
        admin(api, "GET", &path).await.expect(status);
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_are_listed_in_pages() {
    let stack = Stack::builder().pumps(0).start().await;
    let api = stack.api(0);
    let queue = stack.queue("q").await;
    for number in 0..501 {
        let one = queue.sibling(&format!("q{number:03}"));
        one.patch_policy(api, &format!(r#"{{"max_jobs":{}}}"#, number + 1))
            .await;
    }
    let other = QueueClient::with_new_token(api, "default", "other", "q").await;
    other.patch_policy(api, r#"{"max_jobs":9}"#).await;
    let path = format!("/v1/{}/policies?limit=500", queue.namespace());
    let first = admin(api, "GET", &path).await.expect(200).json();
    let items = first["items"].as_array().unwrap();
    assert_eq!(items.len(), 500);
    assert_eq!(items[0]["policy"]["max_jobs"], json!(1));
    let next = first["next"].as_str().unwrap();
    assert_eq!(next, format!("{}/q499", queue.namespace()));
    let second = admin(api, "GET", &format!("{path}&cursor={next}"))
        .await
        .expect(200)
        .json();
    assert_eq!(second["items"].as_array().unwrap().len(), 1);
    assert_eq!(second["items"][0]["queue"], json!("q500"));
    assert_eq!(second["next"], Value::Null);
    let all = admin(api, "GET", "/v1/*/policies?limit=1000").await.json();
    assert_eq!(all["items"].as_array().unwrap().len(), 502);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_policy_is_logged_once_and_can_be_replaced() {
    let stack = Stack::builder().pumps(0).start().await;
    let api = stack.api(0);
    let (queue, good) = (stack.queue("q").await, stack.queue("good").await);
    good.patch_policy(api, r#"{"closed":true}"#).await;
    queue.patch_policy(api, r#"{"closed":true}"#).await;
    let client = redis::Client::open(stack.redis.url()).unwrap();
    let mut connection = connect_to_redis(&client).await.unwrap();
    let name = format!("{}/q", queue.namespace());
    let mut damage = redis::pipe();
    // Without the last revision the whole table is read.
    damage.hset("tg:policies", &name, "damaged").ignore();
    damage.hdel("tg:policies", "#").ignore();
    damage.exec_async(&mut connection).await.unwrap();
    read_now(api).await;
    queue.publish("x").send().await.unwrap().expect(201);
    good.publish("x").send().await.unwrap().expect(400);
    for (method, body) in [("GET", ""), ("PATCH", "{}")] {
        let refused = queue
            .try_policy(api, method, body, None)
            .await
            .unwrap()
            .expect(409);
        assert!(refused.text().contains("damaged"), "{refused}");
    }
    let listed = admin(api, "GET", "/v1/*/policies").await.json();
    let of_queue = listed["items"].as_array().unwrap().iter();
    let of_queue: Vec<&Value> = of_queue.filter(|item| item["queue"] == "q").collect();
    assert_eq!(of_queue[0]["unreadable"], json!("damaged"));
    let warnings = || {
        api.log()
            .matches("the stored policy of a queue cannot be read")
            .count()
    };
    eventually("the warning", PATIENCE, async || match warnings() {
        1 => Ok(()),
        other => Err(other),
    })
    .await;
    damage.exec_async(&mut connection).await.unwrap();
    let _: () = redis::cmd("HSET")
        .arg("tg:policies")
        .arg("#")
        .arg("999.00000000")
        .query_async(&mut connection)
        .await
        .unwrap();
    read_now(api).await;
    assert_eq!(warnings(), 1);
    queue
        .try_policy(api, "PUT", r#"{"closed":true}"#, None)
        .await
        .unwrap()
        .expect(200);
    queue.publish("x").send().await.unwrap().expect(400);
    stack.finish().await;
}
