//! Answers of proxies, of later servers, and of servers of another kind.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use std::net::SocketAddr;
use std::time::Duration;

use tidegate::{Applied, Client, Error, RepeatLimits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const LIMIT: Duration = Duration::from_secs(30);

/// A server that answers each request with the same bytes.
async fn server(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 64 * 1024];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}

fn client(address: SocketAddr) -> Client {
    let none = RepeatLimits {
        repetitions: 0,
        ..RepeatLimits::default()
    };
    let builder = Client::builder(format!("http://{address}"))
        .key("k")
        .namespace("n");
    builder.repeat_limits(none).build().unwrap()
}

async fn error_of(answer: &'static str) -> Error {
    let client = client(server(answer).await);
    let publish = client.publish_raw("q", "x", "text/plain").into_future();
    tokio::time::timeout(LIMIT, publish)
        .await
        .unwrap()
        .unwrap_err()
}

#[tokio::test]
async fn a_problem_with_an_unknown_code_says_what_a_known_one_says() {
    let error = error_of(
        "HTTP/1.1 503 Later\r\nretry-after: 7\r\nconnection: close\r\n\r\n{\"type\":\"urn:x\",\"title\":\"T\",\"status\":503,\
         \"code\":\"moving\",\"detail\":\"the namespace moves\",\"instance\":\"1\",\"applied\":\"no\"}",
    )
    .await;
    assert_eq!((error.status(), error.applied()), (Some(503), Applied::No));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert!(
        error.to_string().ends_with("the namespace moves"),
        "{error}"
    );
}

#[tokio::test]
async fn an_answer_of_a_proxy_keeps_its_retry_after() {
    let error = error_of(
        "HTTP/1.1 502 Bad Gateway\r\nRetry-After: 3\r\nconnection: close\r\n\r\n<html>down</html>",
    )
    .await;
    assert_eq!(
        (error.status(), error.applied()),
        (Some(502), Applied::Unknown)
    );
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
    assert!(error.to_string().contains("down"), "{error}");
}

#[test]
fn a_url_with_more_than_a_server_is_refused_and_not_repeated() {
    for url in [
        "http://user:hunter2@localhost",
        "http://localhost#hunter2",
        "http://localhost?hunter2",
        "ftp://localhost",
        "localhost",
    ] {
        let error = Client::builder(url)
            .key("k")
            .namespace("n")
            .build()
            .unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

/// The server would send more than the client reads.
#[tokio::test]
async fn an_answer_is_read_up_to_a_limit() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 64 * 1024];
        let _ = stream.read(&mut request).await;
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";
        stream.write_all(head).await.unwrap();
        let part = vec![b'x'; 1 << 20];
        let mut sent = 0;
        while sent < 256 && stream.write_all(&part).await.is_ok() {
            sent += 1;
        }
        sent
    });
    let queue = client(address).queue("q").unwrap();
    let job = queue.job("00000000000000000000000000").unwrap();
    let reading = tokio::time::timeout(LIMIT, job.payload());
    let error = reading.await.unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "unexpected answer with status 200: it has more than 128 MiB"
    );
    let sent = tokio::time::timeout(LIMIT, serving).await.unwrap();
    assert!(sent.unwrap() < 256, "the client has closed the connection");
}

/// The error of an idempotent publish whose first answer is lost. Repetitions get this answer; without one no server is
/// there.
async fn error_after_a_lost_answer(answer: Option<String>) -> Error {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut request = [0; 64 * 1024];
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut request).await;
        drop(stream);
        while let Some(answer) = &answer {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    let limits = RepeatLimits {
        repetitions: 3,
        first_delay: Duration::from_millis(50),
        ..RepeatLimits::default()
    };
    let builder = Client::builder(format!("http://{address}")).key("k");
    let client = builder.namespace("n").repeat_limits(limits).build();
    let publish = client.unwrap().publish_raw("q", "x", "text/plain");
    let publish = publish.idempotent();
    let publish = tokio::time::timeout(LIMIT, publish.into_future());
    publish.await.unwrap().unwrap_err()
}

/// The request may have been executed.
#[tokio::test]
async fn a_repetition_that_changed_nothing_does_not_hide_that_the_request_may_be_applied() {
    let problem = |status: u16, code: &str| {
        let detail = r#""title":"T","detail":"D","instance":"1","applied":"no""#;
        Some(format!(
            "HTTP/1.1 {status} X\r\nconnection: close\r\n\r\n{{\"type\":\"urn:x\",\"status\":{status},\"code\":\"{code}\",{detail}}}"
        ))
    };
    for answer in [
        None,
        problem(503, "too_many_connections"),
        problem(409, "queue_closed"),
        problem(401, "unauthorized"),
    ] {
        let error = error_after_a_lost_answer(answer.clone()).await;
        assert!(
            matches!(error, Error::ConnectionBroken(_)),
            "{answer:?}: {error:?}"
        );
        assert_eq!(error.applied(), Applied::Unknown);
    }
    let error = error_after_a_lost_answer(problem(404, "job_not_found")).await;
    assert_eq!(error.status(), Some(404), "{error:?}");
}
