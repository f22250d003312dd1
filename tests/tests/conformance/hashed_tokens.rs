//! Tokens that are stored as hashes: the wire is unchanged, except for lists. lmstfy does not have this.

use tidegate_testkit::{Answer, QueueClient, RawHttp, Stack, connect_to_redis};

async fn admin(stack: &Stack, method: &str, path: &str, body: &str) -> Answer {
    let mut http = RawHttp::connect(stack.api(0).admin()).await;
    http.request(method, path, &[], body.as_bytes()).await;
    http.answer().await.unwrap()
}

async fn listed(stack: &Stack) -> Vec<String> {
    let list = admin(stack, "GET", "/token/shop", "").await.json();
    let tokens = list["tokens"].as_object().unwrap();
    tokens.keys().cloned().collect()
}

async fn opens(stack: &Stack, token: &str) -> bool {
    let queue = QueueClient::new(&stack.api(0).url(), "shop", "orders", token);
    match queue.peek().await.status {
        404 => true,
        401 => false,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_hashed_token_works_and_is_not_in_redis_nor_in_lists() {
    let builder = Stack::builder().pumps(0).api_config("hash_tokens = true");
    let stack = builder.start().await;
    let queue = stack.queue_in("shop", "orders").await;
    let token = queue.token();
    assert!(opens(&stack, token).await);
    let hash = listed(&stack).await.pop().unwrap();
    assert!(hash.starts_with("sha256-"), "{hash}");
    assert!(
        !opens(&stack, &hash).await,
        "a hash from the list is no valid token"
    );

    let again = format!("/token/shop?description=again&token={token}");
    let answer = admin(&stack, "POST", &again, "").await;
    assert!(
        answer.text().contains("the token has already existed"),
        "{answer}"
    );

    // A limit is set by the token, and shown and deleted by its hash.
    let limit = r#"{"read":0,"write":1,"interval":60}"#;
    let by_token = format!("/token/shop/{token}/limit");
    admin(&stack, "POST", &by_token, limit).await.expect(201);
    let limits = admin(&stack, "GET", "/limits", "").await.json();
    assert_eq!(limits[0]["token"], hash.as_str());
    queue.publish("one").id().await;
    let refused = queue.publish("two").send().await.unwrap().expect(429);
    assert!(
        refused.text().contains(token),
        "the answer of the wire contains the token"
    );
    let by_hash = format!("/token/shop/{hash}/limit");
    admin(&stack, "DELETE", &by_hash, "").await.expect(200);

    let dump = everything(&stack).await;
    assert!(dump.contains(&hash) && !dump.contains(token), "{dump}");
    admin(&stack, "DELETE", &format!("/token/shop/{hash}"), "")
        .await
        .expect(204);
    assert!(!opens(&stack, token).await);
    assert_eq!(listed(&stack).await, Vec::<String>::new());
    stack.finish().await;
}

#[tokio::test]
async fn a_stored_hash_is_no_valid_token_in_plain_mode() {
    let builder = Stack::builder().pumps(0).api_config("hash_tokens = true");
    let stack = builder.start().await;
    stack.queue_in("shop", "orders").await;
    let hash = listed(&stack).await.pop().unwrap();
    stack.change_api_config("hash_tokens = false");
    stack.api(0).restart().await;
    assert_eq!(listed(&stack).await, std::slice::from_ref(&hash));
    assert!(!opens(&stack, &hash).await);
    stack.finish().await;
}

/// All keys, and the fields of all hashes for tokens and limits.
async fn everything(stack: &Stack) -> String {
    let client = redis::Client::open(stack.redis.url()).unwrap();
    let mut connection = connect_to_redis(&client).await.unwrap();
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg("tg:*")
        .query_async(&mut connection)
        .await
        .unwrap();
    let mut dump = keys.join(" ");
    for key in keys
        .iter()
        .filter(|key| key.contains("token") || key.contains("limit"))
    {
        let fields: Vec<String> = redis::cmd("HKEYS")
            .arg(key)
            .query_async(&mut connection)
            .await
            .unwrap();
        dump.push_str(&fields.join(" "));
    }
    dump
}
