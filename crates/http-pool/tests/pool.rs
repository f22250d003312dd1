//! Requests over connections that servers close while they are idle.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request};
use hyper_util::client::legacy::connect::HttpConnector;
use tidegate_http_pool::{Connections, HttpPool, RequestError, Resend};

const LIMIT: Duration = Duration::from_secs(30);
const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// The requests that a server received, with the number of their connection.
type Received = Arc<Mutex<Vec<(usize, String)>>>;

/// A server that answers the first requests of each connection, and closes it when the next has arrived. `answers` has
/// the number of answers for each connection; the last is the number for all further connections.
fn server(answers: &'static [usize], last_words: &'static str) -> (SocketAddr, Received) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let received = Received::default();
    let all = Arc::clone(&received);
    std::thread::spawn(move || {
        for (connection, stream) in listener.incoming().enumerate() {
            let (mut stream, all) = (stream.unwrap(), Arc::clone(&all));
            let answers = answers[connection.min(answers.len() - 1)];
            std::thread::spawn(move || {
                for number in 0..=answers {
                    let mut request = [0; 4096];
                    let Ok(read @ 1..) = stream.read(&mut request) else {
                        return;
                    };
                    let text = String::from_utf8_lossy(&request[..read]).to_lowercase();
                    all.lock().unwrap().push((connection, text));
                    let answer = if number < answers { ANSWER } else { last_words };
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            });
        }
    });
    (address, received)
}

fn pool() -> HttpPool<HttpConnector> {
    HttpPool::new(HttpConnector::new())
}

async fn send(
    pool: &HttpPool<HttpConnector>,
    address: SocketAddr,
    method: Method,
    resend: Resend,
) -> Result<(), RequestError> {
    let request = Request::builder()
        .method(method)
        .uri(format!("http://{address}/"));
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let answer = pool.request(request, resend, LIMIT).await?;
    answer.into_body().collect().await.unwrap();
    // The connection is idle a little after its answer.
    tokio::time::sleep(Duration::from_millis(20)).await;
    Ok(())
}

/// The numbers of the connections on which requests arrived.
fn numbers(received: &Received) -> Vec<usize> {
    let received = received.lock().unwrap();
    received.iter().map(|(connection, _)| *connection).collect()
}

#[tokio::test]
async fn a_request_over_a_connection_that_was_idle_is_sent_once_more_over_a_new_one() {
    let (address, received) = server(&[1, 1, 9], "");
    let pool = pool();
    for _ in 0..3 {
        let sent = send(&pool, address, Method::POST, Resend::Allowed).await;
        sent.unwrap();
    }
    // The second request arrived twice. Its second connection is not kept: the third is a new one.
    assert_eq!(numbers(&received), [0, 0, 1, 2]);
}

#[tokio::test]
async fn a_request_is_sent_once_more_at_most_and_only_if_the_caller_allows_it() {
    for (answers, resend, expected) in [
        (&[0][..], Resend::Allowed, vec![0]),
        (&[1, 0][..], Resend::Allowed, vec![0, 0, 1]),
        (&[1][..], Resend::Forbidden, vec![0, 0]),
    ] {
        let (address, received) = server(answers, "");
        let pool = pool();
        let mut sent = Ok(());
        while sent.is_ok() {
            sent = send(&pool, address, Method::POST, resend).await;
        }
        let error = sent.unwrap_err();
        assert!(
            matches!(error, RequestError::ConnectionBroken(_)),
            "{error}"
        );
        assert_eq!(numbers(&received), expected, "{resend:?}");
    }
}

#[tokio::test]
async fn a_request_whose_answer_breaks_off_is_not_sent_again() {
    let (address, received) = server(&[1], "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal");
    let connections = Connections::new("http:").unwrap();
    let mut sent = Ok(());
    while sent.is_ok() {
        let request = Request::post(format!("http://{address}/"));
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let exchange = connections.exchange(request, Resend::Allowed, LIMIT, 9);
        sent = exchange.await.map(drop);
        // The connection is idle a little after its answer.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let error = sent.unwrap_err();
    assert!(
        matches!(error, RequestError::ConnectionBroken(_)),
        "{error}"
    );
    assert_eq!(numbers(&received), [0, 0]);
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_an_error() {
    let (address, _received) = server(&[9], "");
    let connections = Connections::new("http:").unwrap();
    for (bytes_max, is_read) in [(2, true), (1, false)] {
        let request = Request::get(format!("http://{address}/"));
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let exchange = connections.exchange(request, Resend::Allowed, LIMIT, bytes_max);
        match exchange.await {
            Ok(answer) => assert!(is_read && answer.body() == "ok", "{bytes_max}"),
            Err(error) => assert_eq!(
                (is_read, &*error.to_string()),
                (false, "the answer is longer than 1 bytes")
            ),
        }
    }
}

#[tokio::test]
async fn a_method_that_may_have_a_body_says_that_there_is_none() {
    let (address, received) = server(&[9], "");
    let pool = pool();
    let methods = [
        (Method::POST, true),
        (Method::PUT, true),
        (Method::PATCH, true),
        (Method::GET, false),
        (Method::DELETE, false),
    ];
    for (method, is_announced) in methods {
        send(&pool, address, method.clone(), Resend::Allowed)
            .await
            .unwrap();
        let request = received.lock().unwrap().last().unwrap().1.clone();
        let lines = request.matches("\r\ncontent-length: 0\r\n").count();
        assert_eq!(lines, usize::from(is_announced), "{method}: {request}");
    }
}
