//! Relays that are set through the API: `/v1/NAMESPACE/relays`, and the list on the admin port.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tidegate_testkit::{Answer, Daemon, NativeClient, RawHttp, Stack, eventually};

/// Is in every secret of these tests, and in no answer.
const SECRET: &str = "hunter2";

fn webhook() -> Value {
    json!({"source": {"kind": "queue", "queue": "orders"}, "sink": {"kind": "webhook", "url": "https://a.example/hooks"}})
}

fn nats(url: &str) -> Value {
    let sink = json!({
        "kind": "nats", "url": url, "subject": "orders", "user": "u", "password": format!("{SECRET}-1"),
    });
    json!({
        "source": {"kind": "tidegate", "url": "https://b.example", "namespace": "n", "queue": "q", "api_key": format!("{SECRET}-2")},
        "sink": sink, "lease": "90s",
    })
}

async fn put(client: &NativeClient, name: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let path = format!("/relays/{name}");
    let answer = client
        .send("PUT", &path, headers, body.to_string().as_bytes())
        .await;
    assert!(!answer.text().contains(SECRET), "{answer}");
    answer
}

async fn delete(client: &NativeClient, name: &str, headers: &[(&str, &str)]) -> Answer {
    let path = format!("/relays/{name}");
    client.send("DELETE", &path, headers, b"").await
}

/// `GET /relays` on the admin port.
async fn admin_list(api: &Daemon, headers: &[(&str, &str)]) -> Answer {
    let mut http = RawHttp::connect(api.admin()).await;
    let headers: Vec<(String, String)> = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    http.request("GET", "/relays", &headers, b"").await;
    http.answer().await.unwrap()
}

fn etag(answer: &Answer) -> String {
    answer.header("etag").unwrap().to_owned()
}

#[tokio::test]
async fn a_relay_is_set_shown_listed_replaced_and_deleted() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let created = put(&client, "b", &[], &webhook()).await.expect(201);
    let shown = client.get("/relays/b").await.expect(200);
    assert_eq!(
        (shown.json(), etag(&shown)),
        (created.json(), etag(&created))
    );
    let view = shown.json();
    assert_eq!(
        etag(&shown),
        format!("\"{}\"", view["revision"].as_str().unwrap())
    );
    assert_eq!((&view["name"], &view["secrets"]), (&json!("b"), &json!([])));
    assert_eq!(view["config"]["lease"], "1m");
    // What is shown can be set.
    let again = put(&client, "b", &[], &view["config"]).await.expect(200);
    assert_eq!(again.json()["config"], view["config"]);
    assert_ne!(etag(&again), etag(&shown));

    for name in ["c", "a"] {
        put(&client, name, &[], &webhook()).await.expect(201);
    }
    let mut listed = Vec::new();
    let mut path = "/relays?limit=2".to_owned();
    loop {
        let page = client.get(&path).await.expect(200).json();
        let items = page["items"].as_array().unwrap().iter();
        listed.push(items.map(|it| it["name"].clone()).collect::<Vec<_>>());
        match page["next"].as_str() {
            Some(next) => path = format!("/relays?limit=2&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(listed, [vec!["a", "b"], vec!["c"]]);

    let deleted = delete(&client, "b", &[]).await.expect(200).json();
    assert_eq!(deleted, json!({"outcome": "deleted"}));
    for missing in [
        client.get("/relays/b").await,
        delete(&client, "b", &[]).await,
    ] {
        assert_eq!(missing.expect(404).json()["code"], "relay_not_found");
    }
    stack.finish().await;
}

#[tokio::test]
async fn a_relay_belongs_to_its_namespace_and_needs_scopes() {
    let stack = Stack::builder().pumps(0).start().await;
    let api = stack.api(0);
    let shop = NativeClient::new(api, "shop").await;
    let bank = NativeClient::new(api, "bank").await;
    put(&shop, "r", &[], &nats("nats://a")).await.expect(201);
    bank.get("/relays/r").await.expect(404);
    delete(&bank, "r", &[]).await.expect(404);
    put(&bank, "r", &[("If-None-Match", "*")], &webhook())
        .await
        .expect(201);
    let of_bank = bank.get("/relays").await.expect(200).json();
    assert_eq!(of_bank["items"].as_array().unwrap().len(), 1);
    assert_eq!(of_bank["items"][0]["config"]["sink"]["kind"], "webhook");
    let foreign = NativeClient::with_key(api, "bank", shop.key());
    for refused in [
        foreign.get("/relays").await,
        foreign.get("/relays/r").await,
        delete(&foreign, "r", &[]).await,
    ] {
        assert_eq!(refused.expect(403).json()["code"], "namespace_forbidden");
    }

    let reader = NativeClient::with_scopes(api, "shop", &["read"]).await;
    reader.get("/relays/r").await.expect(200);
    reader.get("/relays").await.expect(200);
    for refused in [
        put(&reader, "r", &[], &webhook()).await,
        delete(&reader, "r", &[]).await,
    ] {
        assert_eq!(refused.expect(403).json()["code"], "scope_missing");
    }
    let worker = NativeClient::with_scopes(api, "shop", &["publish", "consume", "admin"]).await;
    worker.get("/relays/r").await.expect(403);
    worker.get("/relays").await.expect(403);
    put(&worker, "s", &[], &webhook()).await.expect(201);

    // A relay reads payloads of the namespace, and a schedule publishes, on behalf of the key that sets it.
    let admin = NativeClient::with_scopes(api, "shop", &["admin"]).await;
    let schedule = json!({"queue": "q", "every": "1h", "job": {"payload": 1}});
    let schedule_set = admin.call("PUT", "/schedules/s", &schedule).await;
    for (refused, scope) in [
        (put(&admin, "s", &[], &webhook()).await, "consume"),
        (schedule_set, "publish"),
    ] {
        let problem = refused.expect(403).json();
        assert_eq!(problem["code"], "scope_missing");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("scope {scope} ")), "{detail}");
    }
    delete(&admin, "s", &[]).await.expect(200);
    put(&worker, "s", &[], &webhook()).await.expect(201);

    let id = worker.key().split('_').nth(1).unwrap();
    let revoked = shop.send("DELETE", &format!("/keys/{id}"), &[], b"").await;
    revoked.expect(200);
    put(&worker, "s", &[], &webhook()).await.expect(401);
    delete(&worker, "s", &[]).await.expect(401);
    shop.get("/relays/s").await.expect(200);
    stack.finish().await;
}

#[tokio::test]
async fn secrets_stay_hidden_and_stay_with_their_server() {
    let stack = Stack::builder()
        .pumps(0)
        .api_config("[log]\nlevel = \"trace\"\naccess = true\n")
        .start()
        .await;
    let api = stack.api(0);
    let client = NativeClient::new(api, "shop").await;
    let secrets = json!(["source.api_key", "sink.password"]);
    let created = put(&client, "r", &[], &nats("nats://a")).await.expect(201);
    assert_eq!(created.json()["secrets"], secrets);
    let mut config = created.json()["config"].clone();
    let stored = async || {
        let listed = admin_list(api, &[]).await.expect(200).json();
        let config = &listed["items"][0]["config"];
        (
            config["source"]["api_key"].clone(),
            config["sink"]["password"].clone(),
        )
    };
    let both = (json!("hunter2-2"), json!("hunter2-1"));
    config["sink"]["subject"] = json!("other");
    let kept = put(&client, "r", &[], &config).await.expect(200).json();
    assert_eq!((&kept["secrets"], stored().await), (&secrets, both.clone()));
    assert_eq!(kept["config"]["sink"]["subject"], "other");

    for (end, field) in [("source", "api_key"), ("sink", "password")] {
        let mut moved = config.clone();
        moved[end]["url"] = json!(if end == "sink" {
            "nats://evil"
        } else {
            "https://evil"
        });
        let refused = put(&client, "r", &[], &moved).await.expect(400).json();
        let name = format!("{end}.{field}");
        assert_eq!(refused["field"], name);
        let expected = format!("{name} must be given again, since the url changes");
        assert!(refused["detail"].as_str().unwrap().starts_with(&expected));
    }
    assert_eq!(stored().await, both);

    config["sink"]["password"] = json!("");
    let removed = put(&client, "r", &[], &config).await.expect(200).json();
    assert_eq!(removed["secrets"], json!(["source.api_key"]));
    assert_eq!(stored().await, (both.0, Value::Null));
    config["source"]["api_key"] = json!("");
    let refused = put(&client, "r", &[], &config).await.expect(400).json();
    assert_eq!(refused["field"], "source.api_key");

    let with_user = nats(&format!("nats://u:{SECRET}@a"));
    let refused = put(&client, "s", &[], &with_user).await.expect(400).json();
    assert_eq!(refused["field"], "sink.url");
    assert!(refused["detail"].as_str().unwrap().contains("password"));
    for path in ["/relays", "/relays/r"] {
        let shown = client.get(path).await.expect(200).text();
        assert!(!shown.contains(SECRET), "{shown}");
    }
    delete(&client, "r", &[]).await.expect(200);
    assert!(!api.log().contains(SECRET), "{}", api.log());
    stack.finish().await;
}

#[tokio::test]
async fn a_change_is_made_for_the_version_that_was_seen() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let refused = put(&client, "r", &[("If-Match", "*")], &webhook()).await;
    assert_eq!(refused.expect(412).json()["code"], "version_mismatch");
    let create = [("If-None-Match", "*")];
    let first = etag(&put(&client, "r", &create, &webhook()).await.expect(201));
    put(&client, "r", &create, &webhook()).await.expect(412);
    let seen = [("If-Match", first.as_str())];
    let second = etag(&put(&client, "r", &seen, &webhook()).await.expect(200));
    put(&client, "r", &seen, &webhook()).await.expect(412);
    delete(&client, "r", &seen).await.expect(412);
    for headers in [
        &[("If-Match", "17")][..],
        &[("If-Match", "\"x\"")],
        &[("If-None-Match", "\"1.00000000\"")],
        &[("If-Match", "*"), ("If-None-Match", "*")],
    ] {
        let refused = put(&client, "r", headers, &webhook()).await;
        assert_eq!(refused.expect(400).json()["code"], "invalid_parameter");
    }
    delete(&client, "r", &[("If-Match", &second)])
        .await
        .expect(200);
    // A relay that is deleted and created again is another one.
    put(&client, "r", &create, &webhook()).await.expect(201);
    put(&client, "r", &[("If-Match", &second)], &webhook())
        .await
        .expect(412);

    // All without a condition are made, one after the other; of those with the same one, one.
    let shown = etag(&client.get("/relays/r").await);
    let same = [("If-Match", shown.as_str())];
    let body = webhook();
    let changes = (0..8).map(|_| put(&client, "r", &same, &body));
    let changed = join_all(changes).await;
    let succeeded = changed.iter().filter(|answer| answer.status == 200);
    assert_eq!(succeeded.count(), 1);
    let changes = (0..8).map(|_| put(&client, "r", &[], &body));
    for answer in join_all(changes).await {
        answer.expect(200);
    }
    stack.finish().await;
}

#[tokio::test]
async fn what_cannot_work_is_refused_with_the_field() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let changed = |pointer: &str, value: Value| {
        let mut body = webhook();
        *body.pointer_mut(pointer).unwrap() = value;
        body
    };
    let with = |name: &str, value: Value| {
        let mut body = webhook();
        body[name] = value;
        body
    };
    for (body, code, field) in [
        (json!([]), "invalid_body", Value::Null),
        (json!({}), "invalid_body", Value::Null),
        (
            changed("/sink/kind", json!("pulsar")),
            "invalid_body",
            json!("sink.kind"),
        ),
        (
            changed("/sink/url", json!("http://a")),
            "invalid_parameter",
            json!("sink.url"),
        ),
        (
            changed("/sink/url", json!("https://127.0.0.1")),
            "invalid_parameter",
            json!("sink.url"),
        ),
        (
            changed("/sink/url", json!("")),
            "invalid_parameter",
            json!("sink.url"),
        ),
        (
            changed("/source/queue", json!("a b")),
            "invalid_name",
            json!("source.queue"),
        ),
        (
            with("lease", json!("10s")),
            "invalid_parameter",
            json!("lease"),
        ),
        (
            with("breaker_pause", json!("2m")),
            "invalid_parameter",
            json!("breaker_pause"),
        ),
        (
            with("batch", json!(1000)),
            "invalid_parameter",
            json!("batch"),
        ),
        (with("pasued", json!(true)), "invalid_body", json!("pasued")),
        (
            with("paused", json!("yes")),
            "invalid_body",
            json!("paused"),
        ),
    ] {
        let refused = put(&client, "r", &[], &body).await.expect(400).json();
        let found = (&refused["code"], &refused["field"], &refused["applied"]);
        assert_eq!(found, (&json!(code), &field, &json!("no")), "{body}");
    }
    stack.finish().await;
}

#[tokio::test]
async fn other_names_paths_and_sizes_are_refused() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    for name in ["a%20b", "a.b", &"x".repeat(65)] {
        let refused = put(&client, name, &[], &webhook()).await.expect(400).json();
        assert_eq!(refused["field"], "relay", "{name}");
    }
    put(&client, &"x".repeat(64), &[], &webhook())
        .await
        .expect(201);
    let long = format!("{{\"paused\":\"{}\"}}", "x".repeat(256 * 1024));
    let refused = client.send("PUT", "/relays/r", &[], long.as_bytes()).await;
    assert_eq!(refused.expect(413).json()["code"], "body_too_large");
    let patched = client
        .call("PATCH", "/relays/r", &webhook())
        .await
        .expect(405);
    assert_eq!(patched.header("allow"), Some("GET, PUT, DELETE"));
    client.get("/relays/r?x=1").await.expect(400);
    stack.finish().await;
}

#[tokio::test]
async fn a_damaged_relay_is_replaced_or_deleted() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    put(&client, "whole", &[], &webhook()).await.expect(201);
    let mut damage = redis::pipe();
    for (name, value) in [
        ("a", &b"damaged"[..]),
        ("b", b"7.00000001 {\"sink\":\"hunter2\"}"),
        ("c", b"x {}"),
        ("d", b"1.00000001 \xff"),
    ] {
        damage
            .hset("tg:relays", format!("shop/{name}"), value)
            .ignore();
    }
    damage.hset("tg:relays", b"shop/\xff", "x").ignore();
    let redis = redis::Client::open(stack.redis.url()).unwrap();
    damage.exec(&mut redis.get_connection().unwrap()).unwrap();
    for name in ["a", "b", "c", "d"] {
        let refused = client.get(&format!("/relays/{name}")).await.expect(409);
        assert_eq!(refused.json()["code"], "relay_unreadable");
        assert!(!refused.text().contains(SECRET), "{refused}");
    }
    let listed = client.get("/relays").await.expect(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    let listed = admin_list(stack.api(0), &[]).await.expect(200);
    assert!(!listed.text().contains(SECRET), "{listed}");
    let names = |list: &Value| -> Vec<Value> {
        let items = list.as_array().unwrap().iter();
        items.map(|item| item["name"].clone()).collect()
    };
    assert_eq!(names(&listed.json()["items"]), ["whole"]);
    assert_eq!(names(&listed.json()["damaged"]), ["a", "b", "c", "d"]);
    put(&client, "a", &[], &webhook()).await.expect(200);
    put(&client, "b", &[], &webhook()).await.expect(200);
    delete(&client, "c", &[]).await.expect(200);
    put(&client, "d", &[], &webhook()).await.expect(200);
    let listed = admin_list(stack.api(0), &[]).await.expect(200).json();
    assert_eq!(names(&listed["items"]), ["a", "b", "d", "whole"]);
    assert_eq!(listed.get("damaged"), None);
    stack.finish().await;
}

#[tokio::test]
async fn the_admin_port_lists_all_relays_with_secrets_when_they_have_changed() {
    let stack = Stack::builder().pumps(0).apis(2).start().await;
    let api = stack.api(1);
    let empty = admin_list(api, &[]).await.expect(200);
    assert_eq!(empty.json(), json!({"items": []}));
    let shop = NativeClient::new(stack.api(0), "shop").await;
    let bank = NativeClient::new(stack.api(0), "bank").await;
    put(&shop, "b", &[], &nats("nats://a")).await.expect(201);
    put(&shop, "a", &[], &webhook()).await.expect(201);
    put(&bank, "z", &[], &webhook()).await.expect(201);
    let listed = admin_list(api, &[]).await.expect(200);
    assert_eq!(listed.header("cache-control"), Some("no-store"));
    assert_ne!(etag(&listed), etag(&empty));
    let items = listed.json()["items"].clone();
    let names: Vec<(Value, Value)> = items
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (item["namespace"].clone(), item["name"].clone()))
        .collect();
    let expected = [("bank", "z"), ("shop", "a"), ("shop", "b")];
    assert_eq!(
        names,
        expected.map(|(namespace, name)| (json!(namespace), json!(name)))
    );
    assert_eq!(items[2]["config"]["sink"]["password"], "hunter2-1");
    assert_eq!(items[2]["config"]["source"]["api_key"], "hunter2-2");

    let mut known = etag(&listed);
    for change in ["set", "delete", "create"] {
        let same = admin_list(api, &[("If-None-Match", &known)])
            .await
            .expect(304);
        assert_eq!((same.text().as_str(), etag(&same)), ("", known.clone()));
        match change {
            "delete" => delete(&bank, "z", &[]).await.expect(200),
            _ => put(&bank, "z", &[], &webhook()).await,
        };
        let changed = admin_list(api, &[("If-None-Match", &known)])
            .await
            .expect(200);
        assert_ne!(etag(&changed), known, "{change}");
        known = etag(&changed);
    }

    stack.change_api_config("[accounts]\nops = \"hunter2\"");
    api.restart().await;
    admin_list(api, &[]).await.expect(401);
    let ops = ("Authorization", "Basic b3BzOmh1bnRlcjI=");
    eventually(
        "the relays are listed again",
        Duration::from_secs(30),
        async || match admin_list(api, &[ops]).await {
            answer if answer.status == 200 => Ok(()),
            answer => Err(answer),
        },
    )
    .await;
    stack.finish().await;
}
