//! The routes of lanes.

use serde_json::json;
use tidegate_testkit::Stack;

use crate::fixture::ask;

#[tokio::test]
async fn lanes_are_set_shown_listed_and_removed() {
    let stack = Stack::builder().apis(2).pool("other").start().await;
    let [api, second] = [stack.api(0), stack.api(1)];
    let row = |queue: &str, open: u16, used: u16| json!({"namespace": "shop", "queue": queue, "open": open, "used": used});
    let set =
        async |path: &str, open: u16| ask(api, "PUT", path, &format!(r#"{{"open":{open}}}"#)).await;
    assert_eq!(ask(api, "GET", "/lanes", "").await, (200, json!([])));
    let one = row("orders", 1, 1);
    assert_eq!(ask(api, "GET", "/lanes/shop/orders", "").await, (200, one));
    assert_eq!(
        set("/lanes/shop/orders", 8).await,
        (200, row("orders", 8, 8))
    );
    assert_eq!(set("/lanes/shop/mails", 3).await, (200, row("mails", 3, 3)));
    assert_eq!(
        set("/lanes/shop/orders", 2).await,
        (200, row("orders", 2, 8))
    );
    // Each process shows the same table at once.
    let all = json!([row("mails", 3, 3), row("orders", 2, 8)]);
    assert_eq!(
        ask(second, "GET", "/lanes?pool=default", "").await,
        (200, all)
    );
    let deleted = ask(second, "DELETE", "/lanes/shop/orders", "").await;
    assert_eq!(deleted, (200, row("orders", 1, 8)));
    // Each pool has a separate table.
    assert_eq!(
        ask(api, "GET", "/lanes?pool=other", "").await,
        (200, json!([]))
    );
    let there = set("/lanes/shop/orders?pool=other", 64).await;
    assert_eq!(there, (200, row("orders", 64, 64)));
    let (_, here) = ask(api, "GET", "/lanes/shop/orders", "").await;
    assert_eq!(here, row("orders", 1, 8));
    stack.finish().await;
}

#[tokio::test]
async fn invalid_requests_are_refused_and_change_nothing() {
    let stack = Stack::builder().start().await;
    let api = stack.api(0);
    let count = "the body should be an object with an integer open";
    let range = "open should be from 1 to 64";
    let pool = "there is no such pool";
    for (path, body, error) in [
        ("/lanes/shop/orders", "", count),
        ("/lanes/shop/orders", "[8]", count),
        ("/lanes/shop/orders", r#"{"open":"8"}"#, count),
        ("/lanes/shop/orders", r#"{"open":65536}"#, count),
        ("/lanes/shop/orders", r#"{"open":0}"#, range),
        ("/lanes/shop/orders", r#"{"open":65}"#, range),
        ("/lanes/shop/orders?pool=none", r#"{"open":8}"#, pool),
        (
            "/lanes/shop/or.ders",
            r#"{"open":8}"#,
            "name contains forbidden characters: use letters, digits, - and _",
        ),
    ] {
        let answer = ask(api, "PUT", path, body).await;
        assert_eq!(answer, (400, json!({"error": error})), "{path} {body}");
    }
    let unknown = ask(api, "GET", "/lanes?pool=none", "").await;
    assert_eq!(unknown, (400, json!({"error": pool})));
    assert_eq!(ask(api, "GET", "/lanes", "").await, (200, json!([])));
    stack.finish().await;
}
