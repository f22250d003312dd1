//! The routes of lanes.

use serde_json::json;
use tidegate_testkit::{NativeClient, Stack};

use crate::fixture::ask;

const ORDERS: &str = "/v1/shop/queues/orders/lanes";

#[tokio::test]
async fn lanes_are_set_shown_listed_and_closed() {
    let stack = Stack::builder().apis(2).pool("other").start().await;
    let [api, second] = [stack.api(0), stack.api(1)];
    let row = |queue: &str, open: u16, used: u16| json!({"namespace": "shop", "queue": queue, "open": open, "used": used});
    let page = |items: &[serde_json::Value]| (200, json!({"items": items, "next": null}));
    let set =
        async |path: &str, open: u16| ask(api, "PUT", path, &format!(r#"{{"open":{open}}}"#)).await;
    assert_eq!(ask(api, "GET", "/v1/*/lanes", "").await, page(&[]));
    let one = row("orders", 1, 1);
    assert_eq!(ask(api, "GET", ORDERS, "").await, (200, one));
    assert_eq!(set(ORDERS, 8).await, (200, row("orders", 8, 8)));
    let mails = set("/v1/shop/queues/mails/lanes", 3).await;
    assert_eq!(mails, (200, row("mails", 3, 3)));
    assert_eq!(set(ORDERS, 2).await, (200, row("orders", 2, 8)));
    // Each process shows the same table at once.
    let all = page(&[row("mails", 3, 3), row("orders", 2, 8)]);
    let listed = ask(second, "GET", "/v1/*/lanes?pool=default", "").await;
    assert_eq!(listed, all);
    assert_eq!(ask(second, "GET", "/v1/shop/lanes", "").await, all);
    assert_eq!(ask(second, "GET", "/v1/bank/lanes", "").await, page(&[]));
    let (_, first) = ask(api, "GET", "/v1/*/lanes?limit=1", "").await;
    assert_eq!(first["next"], "shop/mails");
    let rest = ask(api, "GET", "/v1/*/lanes?limit=1&cursor=shop/mails", "").await;
    assert_eq!(rest, page(&[row("orders", 2, 8)]));
    let closed = ask(second, "PUT", ORDERS, r#"{"open":1}"#).await;
    assert_eq!(closed, (200, row("orders", 1, 8)));
    // Each pool has a separate table.
    let there = ask(api, "GET", "/v1/*/lanes?pool=other", "").await;
    assert_eq!(there, page(&[]));
    let there = set(&format!("{ORDERS}?pool=other"), 64).await;
    assert_eq!(there, (200, row("orders", 64, 64)));
    let (_, here) = ask(api, "GET", ORDERS, "").await;
    assert_eq!(here, row("orders", 1, 8));
    stack.finish().await;
}

#[tokio::test]
async fn invalid_requests_are_refused_and_change_nothing() {
    let stack = Stack::builder().start().await;
    let api = stack.api(0);
    for (path, body, problem) in [
        (ORDERS, "", "invalid_body"),
        (ORDERS, "[8]", "invalid_body"),
        (ORDERS, r#"{"open":"8"}"#, "invalid_body"),
        (ORDERS, r#"{"open":65536}"#, "invalid_body"),
        (ORDERS, r#"{"open":8,"more":1}"#, "invalid_body"),
        (ORDERS, r#"{"open":0}"#, "1 to 64 lanes"),
        (ORDERS, r#"{"open":65}"#, "1 to 64 lanes"),
        (
            &format!("{ORDERS}?pool=none"),
            r#"{"open":8}"#,
            "there is no such pool",
        ),
        (
            "/v1/shop/queues/or.ders/lanes",
            r#"{"open":8}"#,
            "invalid_name",
        ),
        (
            "/v1/*/queues/orders/lanes",
            r#"{"open":8}"#,
            "`*` stands for all namespaces",
        ),
    ] {
        let (status, answer) = ask(api, "PUT", path, body).await;
        assert_eq!(status, 400, "{path} {body}: {answer}");
        assert!(
            answer.to_string().contains(problem),
            "{path} {body}: {answer}"
        );
    }
    let (status, listed) = ask(api, "GET", "/v1/*/lanes", "").await;
    assert_eq!((status, &listed["items"]), (200, &json!([])));
    stack.finish().await;
}

#[tokio::test]
async fn a_key_with_admin_sets_the_lanes_of_its_namespace() {
    let stack = Stack::builder().start().await;
    let shop = NativeClient::new(stack.api(0), "shop").await;
    let path = "/queues/orders/lanes";
    let set = shop.call("PUT", path, &json!({"open": 4})).await;
    assert_eq!(set.expect(200).json()["open"], 4);
    let reader = NativeClient::with_scopes(stack.api(0), "shop", &["read"]).await;
    assert_eq!(reader.get(path).await.expect(200).json()["open"], 4);
    let listed = reader.get("/lanes").await.expect(200).json();
    assert_eq!(listed["items"][0]["queue"], "orders");
    reader
        .call("PUT", path, &json!({"open": 8}))
        .await
        .expect(403);
    let all = NativeClient::with_key(stack.api(0), "*", shop.key());
    all.get("/lanes").await.expect(403);
    stack.finish().await;
}
