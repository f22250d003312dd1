//! Rate limits: how they are set, which requests they count, and which they do not.

use std::time::Duration;

use tidegate_testkit::{Answer, Daemon, QueueClient, RawHttp, Stack, connect_to_redis, eventually};

/// Every process knows a limit within a second; the rest is room for a busy machine.
const SOON: Duration = Duration::from_secs(10);
/// Longer than any test.
const HOUR: u32 = 3600;

/// A request to the admin port of an api.
async fn admin(api: &Daemon, method: &str, path: &str, body: &str) -> Answer {
    let mut http = RawHttp::connect(api.admin()).await;
    http.request(method, path, &[], body.as_bytes()).await;
    http.answer().await.unwrap()
}

fn limit_path(queue: &QueueClient, token: &str) -> String {
    format!("/token/{}/{token}/limit", queue.namespace())
}

fn limiter(read: i64, write: i64, interval: u32) -> String {
    format!(r#"{{"read":{read},"write":{write},"interval":{interval}}}"#)
}

async fn limit(api: &Daemon, queue: &QueueClient, read: i64, write: i64, interval: u32) {
    let path = limit_path(queue, queue.token());
    let body = limiter(read, write, interval);
    admin(api, "PUT", &path, &body).await.expect(200);
}

async fn consume(queue: &QueueClient) -> u16 {
    queue.consume().send().await.unwrap().status
}

async fn publish(queue: &QueueClient) -> u16 {
    queue.publish("x").send().await.unwrap().status
}

/// Sends a request that changes nothing but the counts, until it gets this status.
async fn until(what: &str, status: u16, mut request: impl AsyncFnMut() -> u16) {
    eventually(what, SOON, async || match request().await {
        found if found == status => Ok(()),
        found => Err(found),
    })
    .await;
}

fn over_limit(queue: &QueueClient, action: &str) -> String {
    let token = queue.token();
    let text = format!("token({token}) {action} reach the limit rate, please retry later");
    format!(r#"{{"error":"{text}","msg":"{text}"}}"#)
}

#[tokio::test]
async fn only_successes_count_and_one_request_is_one_unit() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("q").await;
    limit(stack.api(0), &queue, 2, 2, HOUR).await;
    // A request that fails gives its unit back, which takes a moment.
    for _ in 0..3 {
        until("no job", 404, async || consume(&queue).await).await;
        let bad = async || {
            queue
                .raw("GET", &format!("{}?ttr=x", queue.path()))
                .await
                .status
        };
        until("a bad consume", 400, bad).await;
        let bad = async || {
            queue
                .publish("x")
                .delay_s(u64::MAX)
                .send()
                .await
                .unwrap()
                .status
        };
        until("a bad publish", 400, bad).await;
    }
    until("publish", 201, async || publish(&queue).await).await;
    let three = ["1".to_owned(), "2".to_owned(), "3".to_owned()];
    until("bulk", 201, async || {
        queue.publish_bulk(&three).send().await.unwrap().status
    })
    .await;
    for refused in [
        queue.publish("x").send().await.unwrap(),
        queue.publish_bulk(&three).send().await.unwrap(),
        // The limit is checked before the parameters.
        queue.publish("x").delay_s(u64::MAX).send().await.unwrap(),
    ] {
        assert_eq!(refused.status, 429);
        assert_eq!(refused.text(), over_limit(&queue, "produce"));
    }
    until("one job", 200, async || consume(&queue).await).await;
    assert_eq!(queue.consume().count(2).jobs().await.len(), 2);
    let refused = queue.consume().timeout_s(30).send().await.unwrap();
    assert_eq!(refused.text(), over_limit(&queue, "consume"));
    let name = "infra_lmstfy_http_rate_limit";
    let api = stack.api(0);
    assert!(api.metric_with_label(name, "action=\"produce\"").await >= 3.0);
    assert!(api.metric_with_label(name, "action=\"consume\"").await >= 1.0);
    stack.finish().await;
}

#[tokio::test]
async fn a_hang_up_during_a_long_poll_gives_its_unit_back() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("q").await;
    limit(stack.api(0), &queue, 1, 0, HOUR).await;
    let token = [("X-Token".to_owned(), queue.token().to_owned())];
    let mut poll = RawHttp::connect(stack.api(0).listen()).await;
    let path = format!("{}?timeout=60", queue.path());
    poll.request("GET", &path, &token, b"").await;
    stack.api(0).wait_for_waiting_consumers(1).await;
    assert_eq!(consume(&queue).await, 429);
    drop(poll);
    until("the unit is back", 404, async || consume(&queue).await).await;
    stack.finish().await;
}

#[tokio::test]
async fn a_window_ends_after_its_interval() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("q").await;
    limit(stack.api(0), &queue, 0, 1, 2).await;
    assert_eq!(publish(&queue).await, 201);
    until("the window is full", 429, async || publish(&queue).await).await;
    until("the next window", 201, async || publish(&queue).await).await;
    stack.finish().await;
}

#[tokio::test]
async fn each_token_has_its_own_limit_however_it_is_written() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue_in("shop", "q").await;
    let other = stack.queue_in("shop", "q").await;
    let free = stack.queue_in("shop", "q").await;
    limit(stack.api(0), &queue, -1, 1, HOUR).await;
    limit(stack.api(0), &other, 0, 3, HOUR).await;
    assert_eq!(publish(&queue).await, 201);
    for token in [
        queue.token().to_owned(),
        format!(":{}", queue.token()),
        format!("default:{}", queue.token()),
    ] {
        let written = QueueClient::new(&stack.api(0).url(), "shop", "q", &token);
        let refused = written.publish("x").send().await.unwrap();
        assert_eq!(refused.status, 429, "{token}");
        assert_eq!(refused.text(), over_limit(&queue, "produce"));
    }
    for _ in 0..3 {
        assert_eq!(publish(&other).await, 201);
    }
    assert_eq!(publish(&other).await, 429);
    // A side with 0 or less is not limited, and a token without a limit not at all.
    for _ in 0..5 {
        assert_eq!(publish(&free).await, 201);
        assert_eq!(consume(&queue).await, 200);
    }
    stack.finish().await;
}

#[tokio::test]
async fn only_consume_and_publish_are_limited() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("q").await;
    limit(stack.api(0), &queue, 1, 1, HOUR).await;
    queue.publish("x").id().await;
    assert!(queue.consume().job().await.is_some());
    assert_eq!((publish(&queue).await, consume(&queue).await), (429, 429));
    let free = stack.queue_in(queue.namespace(), "q").await;
    for _ in 0..3 {
        let id = free.publish("y").id().await;
        assert_eq!(queue.peek().await.status, 200);
        queue.peek_job(&id).await.expect(200);
        queue.ack(&id).await;
        queue.size().await;
        queue.dead_letter().await;
        queue.respawn(1, 0).await;
        queue.purge_dead(1).await;
        queue.destroy().await;
    }
    stack.finish().await;
}

/// In lmstfy a republish is not limited.
#[tokio::test]
async fn a_republish_takes_a_unit_as_a_publish_does() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("q").await;
    limit(stack.api(0), &queue, 0, 2, HOUR).await;
    let old = queue.publish("old").id().await;
    let bad = async || {
        let request = queue.republish(&old, "x").tries(0);
        request.send().await.unwrap().status
    };
    // A request that fails gives its unit back, which takes a moment.
    for _ in 0..3 {
        until("a bad republish", 400, bad).await;
    }
    let good = async || {
        let request = queue.republish(&old, "new");
        request.send().await.unwrap().status
    };
    until("republish", 201, good).await;
    for refused in [
        queue.republish("unknown", "x").send().await.unwrap(),
        // The limit is checked before the parameters.
        queue
            .republish("unknown", "x")
            .tries(0)
            .send()
            .await
            .unwrap(),
        queue.publish("x").send().await.unwrap(),
    ] {
        assert_eq!(refused.status, 429);
        assert_eq!(refused.text(), over_limit(&queue, "produce"));
    }
    assert_eq!(queue.size().await, 1);
    stack.finish().await;
}

#[tokio::test]
async fn two_apis_share_one_limit_and_learn_of_it_soon() {
    const UNITS: i64 = 20;
    let stack = Stack::builder().apis(2).start().await;
    let queue = stack.queue("q").await;
    let beyond = queue.on_api(stack.api(1));
    // The second API has cached that there is no limit.
    assert_eq!(publish(&beyond).await, 201);
    limit(stack.api(0), &queue, 0, 1, HOUR).await;
    until("the limit is known", 429, async || publish(&beyond).await).await;
    assert_eq!(publish(&queue).await, 429);

    let queue = stack.queue("q").await;
    limit(stack.api(0), &queue, 0, UNITS, HOUR).await;
    let beyond = queue.on_api(stack.api(1));
    let mut requests = tokio::task::JoinSet::new();
    for number in 0..UNITS * 3 {
        let queue = if number % 2 == 0 { &queue } else { &beyond };
        let queue = queue.clone();
        requests.spawn(async move { publish(&queue).await });
    }
    let statuses = requests.join_all().await;
    let count = |status| statuses.iter().filter(|it| **it == status).count() as i64;
    assert_eq!((count(201), count(429)), (UNITS, UNITS * 2));
    stack.finish().await;
}

#[tokio::test]
async fn requests_that_cannot_be_counted_fail() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("q").await;
    limit(stack.api(0), &queue, 1, 0, HOUR).await;
    // The key of the window has a value of another type.
    let (namespace, token) = (queue.namespace(), queue.token());
    let client = redis::Client::open(stack.redis.url()).unwrap();
    let mut connection = connect_to_redis(&client).await.unwrap();
    let key = format!("tg:units:read:default:{namespace}/{token}");
    let mut spoil = redis::cmd("SET");
    let spoil = spoil.arg(key).arg("no window");
    spoil.exec_async(&mut connection).await.unwrap();
    let answer = queue.consume().send().await.unwrap();
    let expected = r#"{"error":"internal error"}"#;
    assert_eq!((answer.status, answer.text().as_str()), (500, expected));
    stack.finish().await;
}

#[tokio::test]
async fn limits_are_created_shown_replaced_and_deleted() {
    let stack = Stack::builder().start().await;
    let api = stack.api(0);
    let queue = stack.queue_in("shop", "q").await;
    let path = limit_path(&queue, queue.token());
    let expect = async |method: &str, path: &str, body: &str, status: u16, text: &str| {
        let answer = admin(api, method, path, body).await;
        assert_eq!((answer.status, answer.text()), (status, text.to_owned()));
        let json = Some("application/json; charset=utf-8");
        assert_eq!(answer.header("content-type"), json);
        assert!(answer.header("x-request-id").is_some());
    };
    let (one, two) = (limiter(1, -1, 60), limiter(2, 2, 60));
    let wrapped = |limiter: &str| format!(r#"{{"limiter":{limiter}}}"#);
    let token = queue.token();
    expect("GET", "/limits", "", 200, "[]").await;
    expect("GET", &path, "", 404, "null").await;
    expect("POST", &path, &one, 201, &wrapped(&one)).await;
    expect("GET", &path, "", 200, &one).await;
    let exists = format!(r#"{{"error":"throttler token({token}) has already exists"}}"#);
    expect("POST", &path, &two, 500, &exists).await;
    expect("PUT", &path, &two, 200, &wrapped(&two)).await;
    // The default pool may be named.
    let named = limit_path(&queue, &format!("default:{token}"));
    expect("GET", &named, "", 200, &two).await;
    let row = format!(r#"[{{"namespace":"shop","token":"{token}","limiter":{two}}}]"#);
    expect("GET", "/limits?force_update=true", "", 200, &row).await;
    let nowhere = limit_path(&queue, "nowhere:t");
    let no_pool = r#"{"error":"the pool was not exists"}"#;
    expect("GET", &nowhere, "", 400, no_pool).await;
    let success = r#"{"msg":"success"}"#;
    expect("DELETE", &path, "", 200, success).await;
    expect("DELETE", &path, "", 200, success).await;
    // The token need not exist; deleting it drops its limit.
    let unknown = limit_path(&queue, "not-made-yet");
    expect("PUT", &unknown, &one, 200, &wrapped(&one)).await;
    let deleted = admin(api, "DELETE", "/token/shop/not-made-yet", "").await;
    assert_eq!(deleted.status, 204);
    expect("GET", &unknown, "", 404, "null").await;
    expect("GET", "/limits", "", 200, "[]").await;
    stack.finish().await;
}

#[tokio::test]
async fn an_invalid_limit_is_refused_with_the_reason() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("q").await;
    let path = limit_path(&queue, "t");
    let nothing = "the read and write of limiter can't be \\u003c= 0 at the same time";
    let no_object = "the body should be an object with integers read, write and interval";
    for (body, error) in [
        ("", no_object),
        ("[]", no_object),
        (r#"{"read":"1"}"#, no_object),
        (r#"{"read":1,"interval":0}"#, "interval should be \\u003e 0"),
        (
            r#"{"read":1,"interval":-1}"#,
            "limiter interval should be \\u003e 0",
        ),
        (r#"{"read":-1,"write":0,"interval":1}"#, nothing),
        (r#"{"read":-1,"interval":1}"#, nothing),
        (r#"{"read":-1}"#, "interval should be \\u003e 0"),
    ] {
        for method in ["POST", "PUT"] {
            let answer = admin(stack.api(0), method, &path, body).await.expect(400);
            assert_eq!(answer.text(), format!(r#"{{"error":"{error}"}}"#), "{body}");
        }
    }
    let zero = limiter(0, 0, 1);
    let answer = admin(stack.api(0), "PUT", &path, &zero).await.expect(400);
    let expected = format!(r#"{{"error":"{nothing}","limiter":{zero}}}"#);
    assert_eq!(answer.text(), expected);
    stack.finish().await;
}
