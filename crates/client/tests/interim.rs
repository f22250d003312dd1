//! Interim answers are skipped, and endless ones end with the time limit of the request.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tidegate::{Client, Error, RepeatLimits};
use tokio::time::{interval, sleep, timeout};

/// The time limit of requests.
const LIMIT: Duration = Duration::from_secs(3);
/// Longer than any wait, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);
const FINAL: &str =
    "HTTP/1.1 404 Not Found\r\ncontent-length: 300\r\ncontent-type: text/plain\r\n\r\n";

fn is_request(stream: &mut TcpStream) -> bool {
    let mut request = [0; 64 * 1024];
    matches!(stream.read(&mut request), Ok(1..))
}

/// A server in threads of its own, so that it runs while the runtime of a test does not. It answers each request as
/// `answer` does, and counts connections.
fn server(answer: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> (SocketAddr, Arc<AtomicU32>) {
    let answer = Arc::new(answer);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&connections);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || {
                while is_request(&mut stream) {
                    answer(&mut stream);
                }
            });
        }
    });
    (address, connections)
}

fn client(address: SocketAddr) -> Client {
    let none = RepeatLimits {
        repetitions: 0,
        ..RepeatLimits::default()
    };
    let builder = Client::builder(format!("http://{address}"))
        .key("k")
        .namespace("n");
    let builder = builder.repeat_limits(none).time_limit(LIMIT);
    builder.build().unwrap()
}

/// The error of a request without a body, which arrives in one part.
async fn error_of(client: &Client) -> Error {
    let queue = client.queue("q").unwrap();
    let job = queue.job("00000000000000000000000000").unwrap();
    timeout(PATIENCE, job.payload()).await.unwrap().unwrap_err()
}

/// A server sends interim answers for as long as the client takes them: the time limit of the request ends it, with its
/// connection, and other tasks of the thread go on meanwhile.
#[test]
fn endless_interim_answers_end_with_the_time_limit_of_the_request() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ended);
    let (address, _) = server(move |stream| {
        let many = "HTTP/1.1 100 Continue\r\n\r\n".repeat(200);
        while stream.write_all(many.as_bytes()).is_ok() {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        told.store(true, Ordering::Relaxed);
    });
    runtime.block_on(async {
        let other = tokio::spawn(async {
            let mut ticks = interval(Duration::from_millis(10));
            for _ in 0..20 {
                ticks.tick().await;
            }
        });
        let error = error_of(&client(address)).await;
        assert!(matches!(error, Error::NoAnswer(LIMIT)), "{error:?}");
        timeout(PATIENCE, other).await.unwrap().unwrap();
        let closing = async {
            while !ended.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, closing).await.unwrap();
    });
}

/// The answers to one request, in parts that are split at each place in turn.
#[tokio::test(flavor = "multi_thread")]
async fn interim_answers_before_an_answer_are_skipped_on_each_request_of_a_connection() {
    let hints = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\nx: \r\n\r\n";
    let begin = format!("HTTP/1.1 100 Continue\r\n\r\n{hints}{FINAL}");
    let whole = format!("{begin}{}", "HTTP/1.1 100 Continue\r\n\r\n".repeat(12));
    let splits = begin.len();
    let number = AtomicU32::new(0);
    let (address, connections) = server(move |stream| {
        let split = number.fetch_add(1, Ordering::Relaxed) as usize;
        let (first, second) = whole.split_at(split);
        stream.write_all(first.as_bytes()).unwrap();
        std::thread::yield_now();
        stream.write_all(second.as_bytes()).unwrap();
    });
    let client = client(address);
    for split in 0..splits {
        let error = error_of(&client).await;
        assert_eq!(error.status(), Some(404), "{split}: {error}");
        assert!(error.to_string().contains("HTTP/1.1 100"), "{error}");
    }
    // Connections are used again; there may be a few, since one is idle a little after its answer.
    assert!(connections.load(Ordering::Relaxed) < 20);
}
