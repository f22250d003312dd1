//! The routes of the admin port for API keys. lmstfy does not have them.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate_testkit::{
    Answer, NativeClient, QueueClient, RawHttp, RedisControl, Stack, connect_to_redis,
};

const NOT_FOUND: &str = r#"{"error":"there is no such key"}"#;

async fn admin(stack: &Stack, method: &str, path: &str, body: &str) -> Answer {
    let mut http = RawHttp::connect(stack.api(0).admin()).await;
    http.request(method, path, &[], body.as_bytes()).await;
    http.answer().await.unwrap()
}

async fn create(stack: &Stack, body: &Value) -> Value {
    let answer = admin(stack, "POST", "/keys", &body.to_string()).await;
    answer.expect(201).json()
}

/// The fields and values of the hash of keys.
async fn stored(stack: &Stack) -> Vec<(String, String)> {
    let client = redis::Client::open(stack.redis.url()).unwrap();
    let mut connection = connect_to_redis(&client).await.unwrap();
    redis::cmd("HGETALL")
        .arg("tg:keys")
        .query_async(&mut connection)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_key_is_created_listed_shown_and_deleted() {
    let stack = Stack::builder().pumps(0).start().await;
    let body = json!({
        "namespace": "shop", "scopes": ["consume", "publish"], "description": "a <worker>",
        "expires_at_ms": 4_102_444_800_000_u64,
    });
    let created = create(&stack, &body).await;
    let (id, key) = (
        created["id"].as_str().unwrap(),
        created["secret"].as_str().unwrap(),
    );
    let secret = key.strip_prefix(&format!("tg_{id}_")).unwrap();
    assert_eq!((id.len(), secret.len()), (12, 26));
    let mut shown = created.clone();
    shown.as_object_mut().unwrap().remove("secret");
    let created_at_ms = &created["created_at_ms"];
    assert!(created_at_ms.as_u64().unwrap() > 1_700_000_000_000);
    let expected = json!({
        "id": id, "namespace": "shop", "pool": "default", "scopes": ["publish", "consume"],
        "description": "a <worker>", "created_at_ms": created_at_ms,
        "expires_at_ms": 4_102_444_800_000_u64,
    });
    assert_eq!(shown, expected);

    let path = format!("/keys/{id}");
    let answer = admin(&stack, "GET", &path, "").await.expect(200);
    assert_eq!(answer.json(), shown);
    assert!(answer.text().contains(r"a \u003cworker\u003e"), "{answer}");
    let list = admin(&stack, "GET", "/keys", "").await.expect(200).json();
    assert_eq!(list, json!({"items": [shown], "next": null}));

    let entries = stored(&stack).await;
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].0, id);
    assert!(!entries[0].1.contains(secret), "{entries:?}");

    assert_eq!(
        admin(&stack, "DELETE", &path, "").await.expect(204).text(),
        ""
    );
    for method in ["GET", "DELETE"] {
        let answer = admin(&stack, method, &path, "").await.expect(404);
        assert_eq!(answer.text(), NOT_FOUND);
    }
    let list = admin(&stack, "GET", "/keys", "").await.expect(200);
    assert_eq!(list.text(), r#"{"items":[],"next":null}"#);
    let log = stack.api(0).log();
    assert!(log.contains("created an API key") && log.contains("deleted an API key"));
    assert!(log.contains(id) && !log.contains(secret), "{log}");
    stack.finish().await;
}

#[tokio::test]
async fn a_key_may_be_for_all_namespaces_and_for_another_pool() {
    let stack = Stack::builder().pumps(0).pool("second").start().await;
    let scopes = ["publish", "consume", "read", "admin"];
    let body = json!({"namespace": "*", "scopes": scopes, "description": "ops", "pool": "second"});
    let created = create(&stack, &body).await;
    assert_eq!(
        (&created["namespace"], &created["pool"]),
        (&json!("*"), &json!("second"))
    );
    assert_eq!(created["scopes"], json!(scopes));
    assert_eq!(created["expires_at_ms"], Value::Null);
    stack.finish().await;
}

#[tokio::test]
async fn a_chosen_key_is_created_once_and_opens_its_namespace() {
    const KEY: &str = "tg_CHOSEN000000_ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let stack = Stack::builder().pumps(0).start().await;
    let mut body = json!({
        "namespace": "shop", "scopes": ["publish"], "description": "from a secret store", "secret": KEY,
    });
    let created = create(&stack, &body).await;
    assert_eq!(
        (&created["id"], &created["secret"]),
        (&json!("CHOSEN000000"), &json!(KEY))
    );
    let client = NativeClient::with_key(stack.api(0), "shop", KEY);
    client.publish("q", "", "x").await.expect(201);
    // Another secret for the same id would lock out the clients that have the first one.
    body["secret"] = json!(KEY.replace("XYZ", "000"));
    let refused = admin(&stack, "POST", "/keys", &body.to_string()).await;
    assert_eq!(
        refused.expect(409).text(),
        r#"{"error":"there is a key with this id"}"#
    );
    client.publish("q", "", "x").await.expect(201);
    stack.finish().await;
}

#[tokio::test]
async fn an_invalid_request_for_a_key_is_refused_with_the_reason() {
    let stack = Stack::builder().pumps(0).start().await;
    let good = json!({"namespace": "shop", "scopes": ["read"], "description": "x"});
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        body.to_string()
    };
    let no_object = "the body should be an object with namespace, scopes and description";
    for (body, error) in [
        (String::new(), no_object),
        ("[]".to_owned(), no_object),
        (
            "namespace=shop&scopes=read&description=x".to_owned(),
            no_object,
        ),
        (
            json!({"namespace": "shop", "scopes": ["read"]}).to_string(),
            "missing field `description`",
        ),
        (with("expires", json!(1)), "unknown field `expires`"),
        (
            with("namespace", json!("a b")),
            "namespace should be * or a name: name contains",
        ),
        (
            with("namespace", json!("n".repeat(256))),
            "name is longer than 255 bytes",
        ),
        (
            with("scopes", json!(["write"])),
            r#"unknown scope \"write\": use publish, consume"#,
        ),
        (
            with("scopes", json!([])),
            "scopes should have at least one of",
        ),
        (
            with("description", json!("")),
            "description should have 1 to 255 bytes",
        ),
        (
            with("description", json!("é".repeat(128))),
            "description should have 1 to 255 bytes",
        ),
        (with("pool", json!("nowhere")), "there is no such pool"),
        (with("pool", json!("")), "there is no such pool"),
        (
            with("expires_at_ms", json!(1)),
            "expires_at_ms should be later than the clock of redis",
        ),
        (with("expires_at_ms", json!("1")), no_object),
        (
            with(
                "secret",
                json!("tg_chosen000000_ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
            ),
            "secret should be tg_ID_SECRET",
        ),
        (
            with("description", json!("x".repeat(70_000))),
            "failed to read body",
        ),
    ] {
        let answer = admin(&stack, "POST", "/keys", &body).await.expect(400);
        assert!(answer.text().contains(error), "{body}: {answer}");
    }
    assert_eq!(stored(&stack).await, []);
    stack.finish().await;
}

#[tokio::test]
async fn invalid_pages_and_ids_are_refused_with_the_reason() {
    let stack = Stack::builder().pumps(0).start().await;
    for (query, error) in [
        ("limit=0", "limit should be from 1 to 1000"),
        ("limit=1001", "limit should be from 1 to 1000"),
        ("cursor=x", "cursor should be next of the page before"),
    ] {
        let path = format!("/keys?{query}");
        let answer = admin(&stack, "GET", &path, "").await.expect(400);
        assert_eq!(answer.text(), format!(r#"{{"error":"{error}"}}"#));
    }
    for path in ["/keys/000000000000", "/keys/x", "/keys/%FF", "/keys/a%2Fb"] {
        for method in ["GET", "DELETE"] {
            let answer = admin(&stack, method, path, "").await;
            assert!(
                matches!(answer.status, 400 | 404),
                "{method} {path}: {answer}"
            );
        }
    }
    assert_eq!(stored(&stack).await, []);
    stack.finish().await;
}

#[tokio::test]
async fn pages_have_all_keys() {
    const KEYS: usize = 300;
    let stack = Stack::builder().pumps(0).start().await;
    let body = json!({"namespace": "shop", "scopes": ["read"], "description": "x"});
    let mut expected = BTreeSet::new();
    for _ in 0..KEYS {
        let created = create(&stack, &body).await;
        expected.insert(created["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(expected.len(), KEYS);
    let (mut found, mut cursor, mut pages) = (BTreeSet::new(), "0".to_owned(), 0);
    loop {
        let path = format!("/keys?limit=20&cursor={cursor}");
        let page = admin(&stack, "GET", &path, "").await.expect(200).json();
        for item in page["items"].as_array().unwrap() {
            found.insert(item["id"].as_str().unwrap().to_owned());
        }
        pages += 1;
        match page["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(found, expected);
    assert!(pages > 3, "{pages}");
    stack.finish().await;
}

#[tokio::test]
async fn a_damaged_entry_is_shown_as_such_and_can_be_deleted() {
    let stack = Stack::builder().pumps(0).start().await;
    let body = json!({"namespace": "shop", "scopes": ["read"], "description": "x"});
    let whole = create(&stack, &body).await;
    let mut control = RedisControl::connect(&stack.redis.url()).await;
    control.set_field("tg:keys", "not an id", "{}").await;
    let list = admin(&stack, "GET", "/keys", "").await.expect(200).json();
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    let damaged = items.iter().find(|item| item["id"] == "not an id").unwrap();
    let reason = damaged["damaged"].as_str().unwrap();
    assert!(reason.contains("missing field"), "{reason}");
    assert!(items.iter().any(|item| item["id"] == whole["id"]));
    let path = "/keys/not%20an%20id";
    assert_eq!(
        &admin(&stack, "GET", path, "").await.expect(200).json(),
        damaged
    );
    admin(&stack, "DELETE", path, "").await.expect(204);
    admin(&stack, "GET", path, "").await.expect(404);
    assert_eq!(stored(&stack).await.len(), 1);
    stack.finish().await;
}

/// The wire of lmstfy knows tokens only.
#[tokio::test]
async fn a_key_is_no_token_of_the_lmstfy_wire() {
    let stack = Stack::builder().pumps(0).start().await;
    let body = json!({"namespace": "*", "scopes": ["publish", "consume"], "description": "x"});
    let created = create(&stack, &body).await;
    let key = created["secret"].as_str().unwrap();
    let queue = QueueClient::new(&stack.api(0).url(), "shop", "orders", key);
    let answer = queue.publish("x").send().await.unwrap().expect(401);
    assert_eq!(answer.text(), r#"{"error":"invalid token"}"#);
    stack.finish().await;
}

#[tokio::test]
async fn keys_are_stored_in_the_admin_store() {
    let redis = tidegate_testkit::start_redis();
    let lines = format!("[admin_store]\nurl = \"{}\"", redis.url());
    let stack = Stack::builder().pumps(0).api_config(&lines).start().await;
    let body = json!({"namespace": "shop", "scopes": ["read"], "description": "x"});
    create(&stack, &body).await;
    assert_eq!(stored(&stack).await, []);
    let list = admin(&stack, "GET", "/keys", "").await.expect(200).json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    stack.finish().await;
}
