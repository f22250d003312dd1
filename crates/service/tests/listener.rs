//! The time limits and the end of a listener, seen from its clients.

// A panic is a test's way to fail.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use tidegate_service::{Drained, ListenLimits, Listener, Peer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

const HEADER_TIMEOUT: Duration = Duration::from_millis(200);
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);
/// More than the system's buffers of a connection hold.
const LARGE_BYTES: usize = 64 * 1024 * 1024;
const REQUEST: &[u8] = b"GET /quick HTTP/1.1\r\nhost: x\r\n\r\n";

struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    served: JoinHandle<Drained>,
    /// Gets a message when work on a request to `/slow` begins, and one when it is dropped.
    slow: mpsc::UnboundedReceiver<&'static str>,
}

struct Watched(mpsc::UnboundedSender<&'static str>);

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

async fn run(connections_max: usize) -> Running {
    run_with(connections_max, HEADER_TIMEOUT).await
}

async fn run_with(connections_max: usize, drain_timeout: Duration) -> Running {
    let limits = ListenLimits {
        connections_max,
        header_timeout: HEADER_TIMEOUT,
        idle_timeout: IDLE_TIMEOUT,
        write_timeout: HEADER_TIMEOUT,
        header_bytes_max: 8192,
    };
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = Listener::bind("test", any, limits).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, slow) = mpsc::unbounded_channel();
    let answer = move |request: Request<Incoming>, _peer: Peer| {
        let sender = sender.clone();
        async move {
            if request.uri().path() == "/large" {
                return Response::new(Body::from(vec![b'x'; LARGE_BYTES]));
            }
            if request.uri().path() == "/slow" {
                let _ = sender.send("begun");
                let _watched = Watched(sender);
                sleep(Duration::from_secs(60)).await;
            }
            if request.uri().path() == "/later" {
                sleep(HEADER_TIMEOUT * 3).await;
            }
            Response::new(Body::from("done"))
        }
    };
    let stop = CancellationToken::new();
    let served = tokio::spawn(listener.serve(answer, stop.clone(), drain_timeout));
    Running {
        address,
        stop,
        served,
        slow,
    }
}

async fn answer(client: &mut TcpStream) -> String {
    client.write_all(REQUEST).await.unwrap();
    let mut buffer = [0; 1024];
    let length = client.read(&mut buffer).await.unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

#[tokio::test]
async fn an_idle_connection_outlives_the_header_timeout() {
    let running = run(10).await;
    let mut client = TcpStream::connect(running.address).await.unwrap();
    for _ in 0..2 {
        assert!(answer(&mut client).await.ends_with("done"));
        sleep(HEADER_TIMEOUT * 2).await;
    }
    let idle_since = Instant::now();
    assert_eq!(
        client.read(&mut [0; 16]).await.unwrap(),
        0,
        "closed when idle for long"
    );
    assert!(idle_since.elapsed() < IDLE_TIMEOUT);
}

#[tokio::test]
async fn a_half_sent_header_is_cut_even_if_it_trickles() {
    let running = run(10).await;
    let mut client = TcpStream::connect(running.address).await.unwrap();
    answer(&mut client).await;
    let begun_at = Instant::now();
    let (mut read, mut write) = client.split();
    let trickle = async {
        while write.write_all(b"G").await.is_ok() {
            sleep(HEADER_TIMEOUT / 10).await;
        }
    };
    let mut buffer = [0; 16];
    tokio::select! {
        ended = read.read(&mut buffer) => assert!(matches!(ended, Ok(0) | Err(_))),
        () = trickle => {}
    }
    let lasted = begun_at.elapsed();
    assert!(
        lasted >= HEADER_TIMEOUT && lasted < IDLE_TIMEOUT,
        "{lasted:?}"
    );
}

#[tokio::test]
async fn a_client_that_hangs_up_ends_the_work_on_its_request() {
    let mut running = run(10).await;
    let mut client = TcpStream::connect(running.address).await.unwrap();
    let request = b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n";
    client.write_all(request).await.unwrap();
    assert_eq!(running.slow.recv().await, Some("begun"));
    // An end right behind the request is that of a client that waits for its answer.
    sleep(Duration::from_millis(300)).await;
    let left_at = Instant::now();
    drop(client);
    let dropped = timeout(Duration::from_secs(5), running.slow.recv()).await;
    assert_eq!(dropped.unwrap(), Some("dropped"));
    assert!(left_at.elapsed() < Duration::from_secs(2), "it was held");
}

#[tokio::test]
async fn a_client_that_closes_its_half_is_answered_but_not_waited_for_without_end() {
    let mut running = run(10).await;
    let mut client = TcpStream::connect(running.address).await.unwrap();
    client
        .write_all(b"GET /later HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    client.shutdown().await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("done"), "{answer}");
    let mut client = TcpStream::connect(running.address).await.unwrap();
    client
        .write_all(b"GET /slow HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(running.slow.recv().await, Some("begun"));
    let dropped = timeout(Duration::from_secs(30), running.slow.recv()).await;
    assert_eq!(dropped.unwrap(), Some("dropped"));
}

/// What was sent behind the request keeps its end from being read.
#[tokio::test]
async fn a_connection_that_breaks_ends_the_work_whatever_else_was_sent() {
    let mut running = run(10).await;
    let mut client = TcpStream::connect(running.address).await.unwrap();
    let requests = b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\nGET /quick HTTP/1.1\r\n";
    client.write_all(requests).await.unwrap();
    assert_eq!(running.slow.recv().await, Some("begun"));
    client.set_zero_linger().unwrap();
    drop(client);
    let dropped = timeout(Duration::from_secs(5), running.slow.recv()).await;
    assert_eq!(dropped.unwrap(), Some("dropped"));
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_is_cut() {
    let running = run(10).await;
    let mut client = TcpStream::connect(running.address).await.unwrap();
    let request = b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n";
    client.write_all(request).await.unwrap();
    sleep(HEADER_TIMEOUT * 4).await;
    let mut received = Vec::new();
    // Whether it ends with an error or not, it ends early.
    let _ = client.read_to_end(&mut received).await;
    assert!(!received.is_empty() && received.len() < LARGE_BYTES);

    let mut reader = TcpStream::connect(running.address).await.unwrap();
    reader.write_all(request).await.unwrap();
    let mut buffer = vec![0; 1024 * 1024];
    let mut length = 0;
    while length < LARGE_BYTES {
        length += reader.read(&mut buffer).await.unwrap();
        sleep(HEADER_TIMEOUT / 100).await;
    }
}

#[tokio::test]
async fn a_connection_above_the_limit_is_told_to_come_back() {
    let running = run(1).await;
    let mut first = TcpStream::connect(running.address).await.unwrap();
    assert!(answer(&mut first).await.ends_with("done"));
    for body_bytes in [0, 1024 * 1024] {
        let mut second = TcpStream::connect(running.address).await.unwrap();
        let head = format!("PUT / HTTP/1.1\r\ncontent-length: {body_bytes}\r\n\r\n");
        second.write_all(head.as_bytes()).await.unwrap();
        // The answer comes whether the body is sent to its end or not.
        let _ = second.write_all(&vec![b'x'; body_bytes]).await;
        let mut received = String::new();
        second.read_to_string(&mut received).await.unwrap();
        assert!(received.starts_with("HTTP/1.1 503 "), "{received}");
        assert!(received.contains("\r\nRetry-After: 1\r\n"), "{received}");
        assert!(received.ends_with("\r\n\r\n{\"error\":\"too many connections\"}"));
    }
    // Those that are served are not disturbed, and make room when they end.
    assert!(answer(&mut first).await.ends_with("done"));
    drop(first);
    loop {
        let mut next = TcpStream::connect(running.address).await.unwrap();
        if answer(&mut next).await.ends_with("done") {
            break;
        }
    }
}

/// More than the listener talks to at a time: the rest waits until those have had their second.
#[tokio::test]
async fn silent_connections_above_the_limit_are_closed_and_make_room_for_others() {
    const SILENT: usize = 16;
    let mut running = run(1).await;
    let mut busy = TcpStream::connect(running.address).await.unwrap();
    busy.write_all(b"GET /slow HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(running.slow.recv().await, Some("begun"));
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(TcpStream::connect(running.address).await.unwrap());
    }
    let mut next = TcpStream::connect(running.address).await.unwrap();
    assert!(answer(&mut next).await.starts_with("HTTP/1.1 503 "));
    for mut client in silent {
        assert_eq!(client.read(&mut [0; 16]).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_stop_closes_idle_connections_and_cuts_the_rest_at_the_deadline() {
    let mut running = run(10).await;
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    answer(&mut idle).await;
    running.stop.cancel();
    assert_eq!(running.served.await.unwrap(), Drained::Completely);

    running = run(10).await;
    let mut busy = TcpStream::connect(running.address).await.unwrap();
    busy.write_all(b"GET /slow HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(running.slow.recv().await, Some("begun"));
    running.stop.cancel();
    assert_eq!(running.served.await.unwrap(), Drained::Cut(1));
    assert_eq!(running.slow.recv().await, Some("dropped"));
}

/// They are in the system's queue, with their requests, since nothing else has run here.
#[tokio::test]
async fn connections_that_were_opened_before_a_stop_are_answered() {
    let running = run(100).await;
    let connect = |_| {
        let mut client = std::net::TcpStream::connect(running.address).unwrap();
        client.write_all(REQUEST).unwrap();
        client.set_nonblocking(true).unwrap();
        TcpStream::from_std(client).unwrap()
    };
    let clients: Vec<_> = (0..50).map(connect).collect();
    running.stop.cancel();
    for mut client in clients {
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("done"), "{answer}");
    }
    assert_eq!(running.served.await.unwrap(), Drained::Completely);
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test]
async fn a_request_that_is_sent_right_after_a_stop_is_answered() {
    let running = run_with(10, Duration::from_secs(60)).await;
    let mut used = TcpStream::connect(running.address).await.unwrap();
    answer(&mut used).await;
    let mut fresh = TcpStream::connect(running.address).await.unwrap();
    // Long enough to be accepted.
    sleep(HEADER_TIMEOUT / 4).await;
    running.stop.cancel();
    // Long enough for every task to know of the stop.
    sleep(Duration::from_millis(30)).await;
    assert!(answer(&mut used).await.ends_with("done"));
    assert!(answer(&mut fresh).await.ends_with("done"));
    assert_eq!(running.served.await.unwrap(), Drained::Completely);
}

/// What the kernel tells of the server's end of a connection.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_that_vanished_is_asked_for_by_the_kernel() {
    let server = run(10).await;
    let mut client = TcpStream::connect(server.address).await.unwrap();
    answer(&mut client).await;
    let ends = format!(
        ":{:04X} 0100007F:{:04X}",
        server.address.port(),
        client.local_addr().unwrap().port()
    );
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let row = table.lines().find(|row| row.contains(&ends)).unwrap();
    // Column 6 is the running timer: 02 is keep-alive.
    let timer = row.split_whitespace().nth(5).unwrap();
    assert!(timer.starts_with("02:"), "{row}");
}
