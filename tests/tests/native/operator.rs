//! `/v1` on the admin port: an operator uses the native API without a key.

use serde_json::json;
use tidegate_testkit::{NativeClient, RawHttp, Stack};

#[tokio::test]
async fn an_operator_does_all_that_a_key_with_all_scopes_does() {
    let stack = Stack::builder().pool("second").start().await;
    let operator = NativeClient::operator(stack.api(0), "shop");
    let published = operator.publish("q", "key=a&delay=0s", "x").await;
    let id = published.expect(201).json()["id"].clone();
    let jobs = operator.reserve("q", 1).await;
    assert_eq!(jobs[0]["id"], id);
    let body = json!({"leases": [jobs[0]["lease"]]});
    let acked = operator.settle("ack", &body).await;
    assert_eq!(acked, [json!({"outcome": "done"})]);
    // The pool is named in the query, and is no parameter of the operation.
    operator
        .publish("q", "delay=1h&pool=second", "x")
        .await
        .expect(201);
    for (pool, delayed) in [("default", 0), ("second", 1)] {
        let shown = operator.get(&format!("/queues/q?pool={pool}")).await;
        assert_eq!(shown.expect(200).json()["jobs"]["delayed"], delayed);
    }
    let refused = operator.get("/queues/q?pool=third").await.expect(400);
    assert_eq!(refused.json()["field"], "pool");
    operator.get("/queues/q?pools=second").await.expect(400);
    // At the port for clients a pool belongs to the key.
    let client = NativeClient::new(stack.api(0), "shop").await;
    client.get("/queues/q?pool=second").await.expect(400);
    stack.finish().await;
}

#[tokio::test]
async fn a_page_of_another_site_and_an_account_that_is_no_admin_are_refused() {
    let config = "[accounts]\nops = \"open sesame\"\nviewer = \"open sesame\"\n[account_roles]\nviewer = \"view\"\n";
    let stack = Stack::builder().api_config(config).start().await;
    let (ops, viewer) = (
        "Basic b3BzOm9wZW4gc2VzYW1l",
        "Basic dmlld2VyOm9wZW4gc2VzYW1l",
    );
    for (headers, status) in [
        (vec![("Authorization", ops)], 201),
        (vec![("Authorization", viewer)], 403),
        (vec![], 401),
        (vec![("Authorization", "Bearer tg_AAAAAAAAAAAA_x")], 401),
        (
            vec![("Authorization", ops), ("Origin", "http://evil.example")],
            403,
        ),
        (
            vec![("Authorization", ops), ("Sec-Fetch-Site", "cross-site")],
            403,
        ),
    ] {
        let mut http = RawHttp::connect(stack.api(0).admin()).await;
        let path = "/v1/shop/queues/q/jobs";
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        http.request("POST", path, &headers, b"x").await;
        let answer = http.answer().await.unwrap();
        assert_eq!(answer.status, status, "{headers:?}: {answer}");
    }
    stack.finish().await;
}
