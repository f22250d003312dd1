//! The token of the listener, its health checks, and deployments without a listener.

use serde_json::json;
use tidegate_testkit::{RawHttp, Stack};

use crate::fixture::YouzanStack;

#[tokio::test]
async fn with_a_token_in_the_settings_each_request_needs_it() {
    let YouzanStack { stack, mut client } = YouzanStack::start("token = \"secret-7\"").await;
    let pop = json!({"command": "pop", "topic": "order", "timeout": 0});
    for header in [
        None,
        Some("Bearer"),
        Some("Bearer "),
        Some("Bearer secret-"),
        Some("Bearer secret-77"),
        Some("Basic secret-7"),
        Some("secret-7"),
    ] {
        let header = header.map(|value| ("Authorization".to_owned(), value.to_owned()));
        client.headers = header.into_iter().collect();
        let answer = client.command(&pop).await;
        assert_eq!(answer["success"], json!(false), "{:?}", client.headers);
        assert!(answer["error"].as_str().unwrap().contains("Bearer TOKEN"));
        let answer = client.post("/get", &json!({"id": "1"})).await.expect(200);
        assert_eq!(answer.json()["code"], json!(1));
    }
    client.headers = vec![("Authorization".to_owned(), "bearer  secret-7".to_owned())];
    client.add("order", "1", 0, "x").await;
    client.expect_pop("order", "1", "x").await;
    client.finish("1").await;
    assert!(!stack.api(0).log().contains("secret-7"));
    // Load balancers have no token.
    for path in ["/healthz", "/readyz"] {
        let mut http = RawHttp::connect(client.address).await;
        http.request("GET", path, &[], b"").await;
        http.answer().await.unwrap().expect(200);
    }
    stack.finish().await;
}

#[tokio::test]
async fn without_a_token_pages_of_other_sites_are_refused() {
    let YouzanStack { stack, mut client } = YouzanStack::start("").await;
    let pop = json!({"command": "pop", "topic": "order", "timeout": 0});
    for (name, value, is_refused) in [
        ("Origin", "http://evil.example", true),
        ("Sec-Fetch-Site", "cross-site", true),
        ("Origin", "http://localhost", false),
        ("Content-Type", "text/plain", false),
    ] {
        client.headers = vec![(name.to_owned(), value.to_owned())];
        let answer = client.command(&pop).await;
        assert_eq!(answer["success"], json!(!is_refused), "{name}: {answer}");
    }
    stack.finish().await;
}

#[tokio::test]
async fn by_default_there_is_no_listener() {
    let stack = Stack::builder().start().await;
    let log = stack.api(0).log();
    assert!(log.contains("ready") && !log.contains("Youzan"), "{log}");
    stack.finish().await;
}
