//! Redis receives calls and does not answer: no request takes longer than its limit.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate_testkit::{RawHttp, Stack, print_figure};

const LIMIT: Duration = Duration::from_secs(1);
/// The timeout of a consume.
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
        let answer = queue.with_separate_connections().raw(method, target).await;
        let took = begin.elapsed();
        assert_eq!(answer.status, 500, "{method} {target}: {answer}");
        assert_eq!(answer.text(), r#"{"error":"internal error"}"#);
        assert!(took >= *limit, "{method} {target}: {took:?}");
        assert!(took < *limit + SLACK, "{method} {target}: {took:?}");
        took - *limit
    });
    let latest = join_all(asking).await.into_iter().max().unwrap();
    print_figure(&format!(
        "requests to a silent redis: ended {latest:?} after their limit at most"
    ));
    stack.redis.resume().unwrap();
    // Redis may have executed any of these calls: the data is consistent all the same.
    queue.sibling("other").publish("x").id().await;
    stack.finish().await;
}

/// The limit of a request does not include the time in which its body is received.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_body_is_not_cut_by_the_request_timeout() {
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
