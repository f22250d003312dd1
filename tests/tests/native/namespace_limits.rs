//! What one namespace may have.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tidegate_testkit::{Answer, NativeClient, Stack};

const LIMITS: &str = "
    [namespace_limits]
    queues = 100
    policies = 2
    limits = 2
    schedules = 2
    relays = 2
    api_keys = 3";

#[track_caller]
fn expect_full(answer: Answer, kind: &str, max: u32) {
    let problem: Value = answer.expect(409).json();
    let detail = problem["detail"].as_str().unwrap();
    assert_eq!(problem["code"], "namespace_full");
    let expected = match kind {
        "queues" => format!("its limit `queues` allows, about {max};"),
        _ => format!("the namespace has {max} {kind}, the maximum (its limit `{kind}`)"),
    };
    assert!(detail.contains(&expected), "{detail}");
    // In /v1 a policy is removed by replacing it.
    let is_right = kind != "policies" || detail.ends_with("replace one by {} first");
    assert!(is_right, "{detail}");
}

/// With one bucket the limit of queues is exact.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_has_a_limited_number_of_queues() {
    let config = format!("{LIMITS}\n[pool.default]\nbuckets = 1");
    let stack = Stack::builder().pumps(0).api_config(&config).start().await;
    let client = NativeClient::new(stack.api(0), "crowded").await;
    let creating = (0..120).map(async |number| {
        let path = format!("q-{number}");
        client.publish(&path, "", "1").await
    });
    let answers = join_all(creating).await;
    let (refused, created): (Vec<_>, Vec<_>) = (0..)
        .zip(answers)
        .partition(|(_, answer)| answer.status == 409);
    assert_eq!((created.len(), refused.len()), (100, 20));
    let stored = created[0].0;
    let mut new = 0;
    for (number, answer) in refused {
        new = number;
        expect_full(answer, "queues", 100);
    }
    let keyed = client.publish(&format!("q-{new}"), "key=k", "1").await;
    expect_full(keyed, "queues", 100);
    let lmstfy = stack.queue_in("crowded", &format!("q-{new}")).await;
    let answer = lmstfy.publish("1").send().await.unwrap().expect(429);
    assert_eq!(
        answer.json()["error"],
        "the namespace has too many queues, please retry later"
    );

    let existing = format!("q-{stored}");
    client.publish(&existing, "", "1").await.expect(201);
    client.publish(&existing, "key=k", "1").await.expect(201);
    let other = NativeClient::new(stack.api(0), "other").await;
    other.publish("q", "", "1").await.expect(201);

    stack.queue_in("crowded", &existing).await.destroy().await;
    client
        .publish(&format!("q-{new}"), "", "1")
        .await
        .expect(201);
    expect_full(client.publish(&existing, "", "1").await, "queues", 100);
    stack.finish().await;
}

/// The kinds of entries that are limited by namespace, apart from queues and API keys: name, path and a body of each.
pub(crate) fn limited_kinds() -> [(&'static str, &'static str, Value); 4] {
    let relay = json!({
        "source": {"kind": "queue", "queue": "q"},
        "sink": {"kind": "webhook", "url": "https://a.example/hooks"},
    });
    let schedule = json!({"queue": "q", "every": "1h", "job": {"payload": 1}});
    [
        ("policies", "/queues/NAME/policy", json!({"max_jobs": 7})),
        ("limits", "/limits/NAME", json!({"jobs": 7})),
        ("schedules", "/schedules/NAME", schedule),
        ("relays", "/relays/NAME", relay),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_limits_schedules_and_relays_are_limited_by_namespace() {
    let stack = Stack::builder().pumps(0).api_config(LIMITS).start().await;
    let client = NativeClient::new(stack.api(0), "a").await;
    let other = NativeClient::new(stack.api(0), "b").await;
    for (kind, path, body) in limited_kinds() {
        let set = async |client: &NativeClient, name: &str| {
            client.call("PUT", &path.replace("NAME", name), &body).await
        };
        for name in ["one", "two", "one"] {
            let answer = set(&client, name).await;
            assert!(answer.status < 300, "{kind}: {}", answer.text());
        }
        expect_full(set(&client, "three").await, kind, 2);
        assert!(set(&other, "three").await.status < 300, "{kind}");
        let removed = match kind {
            "policies" => client.call("PUT", "/queues/one/policy", &json!({})).await,
            _ => {
                client
                    .send("DELETE", &path.replace("NAME", "one"), &[], b"")
                    .await
            }
        };
        assert!(removed.status < 300, "{kind}: {}", removed.text());
        assert!(set(&client, "three").await.status < 300, "{kind}");
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_keys_are_limited_and_listed_by_namespace() {
    let stack = Stack::builder().pumps(0).api_config(LIMITS).start().await;
    let client = NativeClient::new(stack.api(0), "a").await;
    // In a hash with so few entries a page has all: those of `a` would come with others.
    for number in 0..150 {
        NativeClient::new(stack.api(0), &format!("other-{number}")).await;
    }
    let create = json!({"description": "d", "scopes": ["publish"]});
    let second = client
        .call("POST", "/keys", &create)
        .await
        .expect(201)
        .json();
    client.call("POST", "/keys", &create).await.expect(201);
    expect_full(client.call("POST", "/keys", &create).await, "api_keys", 3);
    let listed = client.get("/keys?limit=3").await.expect(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 3, "{listed}");
    assert_eq!(listed["next"], Value::Null);
    let id = second["key"]["id"].as_str().unwrap();
    client
        .send("DELETE", &format!("/keys/{id}"), &[], b"")
        .await
        .expect(200);
    client.call("POST", "/keys", &create).await.expect(201);
    stack.finish().await;
}
