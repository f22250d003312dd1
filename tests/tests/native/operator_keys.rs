//! API keys that an operator manages, with `/v1` on the admin port.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, QueueClient, RedisControl, Stack, connect_to_redis};

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

async fn create(operator: &NativeClient, body: &Value) -> Value {
    operator
        .call("POST", "/keys", body)
        .await
        .expect(201)
        .json()
}

#[tokio::test]
async fn a_key_is_created_listed_and_revoked() {
    let stack = Stack::builder().pumps(0).start().await;
    let shop = NativeClient::operator(stack.api(0), "shop");
    let body = json!({
        "scopes": ["consume", "publish"], "description": "a <worker>", "expires_at": "2099-12-31T00:00:00.000Z",
    });
    let created = create(&shop, &body).await;
    let (key, shown) = (created["secret"].as_str().unwrap(), &created["key"]);
    let id = shown["id"].as_str().unwrap();
    let secret = key.strip_prefix(&format!("tg_{id}_")).unwrap();
    assert_eq!((id.len(), secret.len()), (12, 26));
    let expected = json!({
        "id": id, "namespace": "shop", "pool": "default", "scopes": ["publish", "consume"],
        "description": "a <worker>", "created_at": shown["created_at"], "expires_at": body["expires_at"],
    });
    assert_eq!(*shown, expected);
    let all = NativeClient::operator(stack.api(0), "*");
    for lists in [&shop, &all] {
        let listed = lists.get("/keys").await.expect(200).json();
        assert_eq!(listed, json!({"items": [shown], "next": null}));
    }
    let bank = NativeClient::operator(stack.api(0), "bank");
    let listed = bank.get("/keys").await.expect(200).json();
    assert_eq!(listed["items"], json!([]));

    let entries = stored(&stack).await;
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].0, id);
    assert!(!entries[0].1.contains(secret), "{entries:?}");

    let path = format!("/keys/{id}");
    all.send("DELETE", &path, &[], b"").await.expect(200);
    all.send("DELETE", &path, &[], b"").await.expect(404);
    assert_eq!(stored(&stack).await, []);
    let log = stack.api(0).log_with("deleted an API key").await;
    assert!(log.contains("created an API key"), "{log}");
    assert!(log.contains(id) && !log.contains(secret), "{log}");
    stack.finish().await;
}

#[tokio::test]
async fn a_key_may_be_for_all_namespaces_and_for_another_pool() {
    let stack = Stack::builder().pumps(0).pool("second").start().await;
    let operator = NativeClient::operator(stack.api(0), "*");
    let scopes = ["publish", "consume", "read", "admin"];
    let body = json!({"scopes": scopes, "description": "ops"});
    let created = operator.call("POST", "/keys?pool=second", &body).await;
    let created = created.expect(201).json();
    let key = &created["key"];
    assert_eq!(
        (&key["namespace"], &key["pool"]),
        (&json!("*"), &json!("second"))
    );
    assert_eq!(key["scopes"], json!(scopes));
    assert_eq!(key.get("expires_at"), None);
    // The keys of all pools are in one table.
    let listed = operator.get("/keys").await.expect(200).json();
    assert_eq!(listed["items"], json!([key]));
    operator.get("/keys?pool=nowhere").await.expect(400);
    stack.finish().await;
}

#[tokio::test]
async fn a_chosen_key_is_created_once_and_opens_its_namespace() {
    const KEY: &str = "tg_CHOSEN000000_ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let stack = Stack::builder().pumps(0).start().await;
    let operator = NativeClient::operator(stack.api(0), "shop");
    let mut body =
        json!({"scopes": ["publish", "admin"], "description": "from a vault", "secret": KEY});
    let created = create(&operator, &body).await;
    assert_eq!(
        (&created["key"]["id"], &created["secret"]),
        (&json!("CHOSEN000000"), &json!(KEY))
    );
    let client = NativeClient::with_key(stack.api(0), "shop", KEY);
    client.publish("q", "", "x").await.expect(201);
    // Another secret for the same id would lock out the clients that have the first one.
    body["secret"] = json!(KEY.replace("XYZ", "000"));
    let refused = operator
        .call("POST", "/keys", &body)
        .await
        .expect(409)
        .json();
    assert_eq!(refused["code"], "key_exists");
    client.publish("q", "", "x").await.expect(201);
    body["secret"] = json!("tg_chosen000000_ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    let refused = operator
        .call("POST", "/keys", &body)
        .await
        .expect(400)
        .json();
    assert_eq!(refused["field"], "secret");
    // Who holds a key does not choose.
    body["secret"] = json!("tg_CHOSEN000001_ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    body["scopes"] = json!(["publish"]);
    let refused = client.call("POST", "/keys", &body).await.expect(400).json();
    assert_eq!(refused["field"], "secret");
    assert_eq!(stored(&stack).await.len(), 1);
    stack.finish().await;
}

#[tokio::test]
async fn an_invalid_request_for_a_key_is_refused_with_the_field() {
    let stack = Stack::builder().pumps(0).start().await;
    let operator = NativeClient::operator(stack.api(0), "shop");
    for (field, value) in [
        ("expires", json!(1)),
        ("namespace", json!("a b")),
        ("namespace", json!("n".repeat(256))),
        ("scopes", json!([])),
        ("description", json!("")),
        ("description", json!("é".repeat(128))),
        ("pool", json!("nowhere")),
        ("pool", json!("")),
        ("expires_at", json!("1970-01-01T00:00:00.001Z")),
    ] {
        let mut body = json!({"scopes": ["read"], "description": "x"});
        body[field] = value;
        let refused = operator
            .call("POST", "/keys", &body)
            .await
            .expect(400)
            .json();
        assert_eq!(refused["field"], field, "{body}: {refused}");
    }
    assert_eq!(stored(&stack).await, []);
    stack.finish().await;
}

#[tokio::test]
async fn invalid_pages_and_ids_are_refused() {
    let stack = Stack::builder().pumps(0).start().await;
    let operator = NativeClient::operator(stack.api(0), "*");
    for query in ["limit=0", "limit=1001", "cursor=x"] {
        operator.get(&format!("/keys?{query}")).await.expect(400);
    }
    for (id, status) in [
        ("000000000000", 404),
        ("x", 404),
        ("%FF", 400),
        ("a%2Fb", 404),
    ] {
        let path = format!("/keys/{id}");
        operator
            .send("DELETE", &path, &[], b"")
            .await
            .expect(status);
    }
    stack.finish().await;
}

#[tokio::test]
async fn pages_have_all_keys() {
    const KEYS: usize = 300;
    let stack = Stack::builder().pumps(0).start().await;
    let operator = NativeClient::operator(stack.api(0), "*");
    let body = json!({"namespace": "shop", "scopes": ["read"], "description": "x"});
    let mut expected = BTreeSet::new();
    for _ in 0..KEYS {
        let created = create(&operator, &body).await;
        expected.insert(created["key"]["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(expected.len(), KEYS);
    let (mut found, mut path, mut pages) = (BTreeSet::new(), "/keys?limit=20".to_owned(), 0);
    loop {
        let page = operator.get(&path).await.expect(200).json();
        for item in page["items"].as_array().unwrap() {
            found.insert(item["id"].as_str().unwrap().to_owned());
        }
        pages += 1;
        match page["next"].as_str() {
            Some(next) => path = format!("/keys?limit=20&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(found, expected);
    assert!(pages > 3, "{pages}");
    stack.finish().await;
}

#[tokio::test]
async fn a_damaged_entry_is_shown_to_operators_who_can_delete_it() {
    let stack = Stack::builder().pumps(0).start().await;
    let operator = NativeClient::operator(stack.api(0), "*");
    let scopes = ["read", "admin"];
    let key = operator.new_key(&scopes).await;
    let mut control = RedisControl::connect(&stack.redis.url()).await;
    control.set_field("tg:keys", "not an id", "{}").await;
    let listed = operator.get("/keys").await.expect(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    let damaged = &listed["damaged"][0];
    assert_eq!(damaged["id"], "not an id");
    let problem = damaged["problem"].as_str().unwrap();
    assert!(problem.contains("missing field"), "{problem}");
    let path = "/keys/not%20an%20id";
    let client = NativeClient::with_key(stack.api(0), "*", &key);
    let listed = client.get("/keys").await.expect(200).json();
    assert_eq!(listed.get("damaged"), None);
    client.send("DELETE", path, &[], b"").await.expect(404);
    operator.send("DELETE", path, &[], b"").await.expect(200);
    operator.send("DELETE", path, &[], b"").await.expect(404);
    assert_eq!(stored(&stack).await.len(), 1);
    stack.finish().await;
}

/// The wire of lmstfy knows tokens only.
#[tokio::test]
async fn a_key_is_no_token_of_the_lmstfy_wire() {
    let stack = Stack::builder().pumps(0).start().await;
    let operator = NativeClient::operator(stack.api(0), "*");
    let key = operator.new_key(&["publish", "consume"]).await;
    let queue = QueueClient::new(&stack.api(0).url(), "shop", "orders", &key);
    let answer = queue.publish("x").send().await.unwrap().expect(401);
    assert_eq!(answer.text(), r#"{"error":"invalid token"}"#);
    stack.finish().await;
}

#[tokio::test]
async fn keys_are_stored_in_the_admin_store() {
    let redis = tidegate_testkit::start_redis();
    let lines = format!("[admin_store]\nurl = \"{}\"", redis.url());
    let stack = Stack::builder().pumps(0).api_config(&lines).start().await;
    let operator = NativeClient::operator(stack.api(0), "shop");
    operator.new_key(&["read"]).await;
    assert_eq!(stored(&stack).await, []);
    let listed = operator.get("/keys").await.expect(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    stack.finish().await;
}
