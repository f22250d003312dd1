//! Redis takes calls and does not answer: no request waits longer than it may.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate_testkit::{RawHttp, Stack, figure};

use crate::turn;

const LIMIT: Duration = Duration::from_secs(1);
/// What a consume of the test wants to wait for a job.
const PATIENCE: Duration = Duration::from_secs(2);
const SLACK: Duration = Duration::from_secs(10);
/// Calls themselves may take longer than the test.
const CONFIG: &str = "
    [requests]
    timeout = \"1s\"
    [pool.default]
    command_timeout = \"2m\"
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_ends_at_its_limit() {
    let _turn = turn().await;
    let stack = Stack::builder().api_config(CONFIG).start().await;
    let queue = stack.queue("q").await;
    let id = queue.publish("x").id().await;
    let path = queue.path();
    stack.redis.pause().unwrap();
    let requests = [
        ("PUT", path.clone(), LIMIT),
        ("PUT", format!("{path}/job/{id}"), LIMIT),
        ("GET", path.clone(), LIMIT),
        ("GET", format!("{path}?timeout=2"), LIMIT + PATIENCE),
        ("GET", format!("{path}/peek?timeout=2"), LIMIT),
        ("GET", format!("{path}/job/{id}"), LIMIT),
        ("DELETE", format!("{path}/job/{id}"), LIMIT),
        ("DELETE", path.clone(), LIMIT),
        ("GET", format!("{path}/deadletter"), LIMIT),
        ("PUT", format!("{path}/deadletter"), LIMIT),
        ("DELETE", format!("{path}/deadletter"), LIMIT),
        ("GET", format!("{path}/size"), LIMIT),
        ("GET", format!("{path}/deadletter/size"), LIMIT),
        ("GET", "/api/another-namespace/q".to_owned(), LIMIT),
    ];
    let asking = requests.iter().map(async |(method, target, limit)| {
        let begin = Instant::now();
        let answer = queue.apart().raw(method, target).await;
        let took = begin.elapsed();
        assert_eq!(answer.status, 500, "{method} {target}: {answer}");
        assert_eq!(answer.text(), r#"{"error":"internal error"}"#);
        assert!(took >= *limit, "{method} {target}: {took:?}");
        assert!(took < *limit + SLACK, "{method} {target}: {took:?}");
        took - *limit
    });
    let latest = join_all(asking).await.into_iter().max().unwrap();
    figure(&format!(
        "requests to a silent redis: ended {latest:?} after their limit at most"
    ));
    stack.redis.resume().unwrap();
    // Whatever of it was carried out after all: the world is as it should be.
    queue.sibling("other").publish("x").id().await;
    stack.finish().await;
}

/// The time in which a body is waited for is the client's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_takes_longer_than_a_request_may_is_waited_for() {
    let _turn = turn().await;
    let stack = Stack::builder().api_config(CONFIG).start().await;
    let queue = stack.queue("q").await;
    let mut http = RawHttp::connect(stack.api(0).listen()).await;
    let head = format!(
        "PUT {} HTTP/1.1\r\nX-Token: {}\r\nContent-Length: 8\r\n\r\n",
        queue.path(),
        queue.token()
    );
    assert!(http.send(head).await);
    for part in ["slo", "wly", "!!"] {
        assert!(!http.is_closed_within(LIMIT).await);
        assert!(http.send(part).await);
    }
    http.answer().await.unwrap().expect(201);
    assert_eq!(queue.consume().job().await.unwrap().text(), "slowly!!");
    stack.finish().await;
}
