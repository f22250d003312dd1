//! Time limits and shutdown of a listener, as its clients see them.

// A panic fails the test.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use tidegate_daemon::{DrainResult, ListenLimits, Listener, Peer, ServingThreads};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

const HEADER_TIMEOUT: Duration = Duration::from_millis(200);
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// More than the socket buffers of a connection hold.
const LARGE_BYTES: usize = 64 * 1024 * 1024;
const REQUEST: &[u8] = b"GET /quick HTTP/1.1\r\nhost: x\r\n\r\n";

struct TestListener {
    address: SocketAddr,
    stop: CancellationToken,
    served: JoinHandle<DrainResult>,
    /// Receives a message when the handler of `/slow` begins, and one when it is dropped.
    slow: mpsc::UnboundedReceiver<&'static str>,
}

struct DropNotifier(mpsc::UnboundedSender<&'static str>);

impl Drop for DropNotifier {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

async fn run(connections_max: usize) -> TestListener {
    run_with(connections_max, HEADER_TIMEOUT).await
}

async fn run_with(connections_max: usize, drain_timeout: Duration) -> TestListener {
    run_limited(limits(connections_max), drain_timeout).await
}

fn limits(connections_max: usize) -> ListenLimits {
    ListenLimits {
        connections_max,
        header_timeout: HEADER_TIMEOUT,
        idle_timeout: IDLE_TIMEOUT,
        write_timeout: HEADER_TIMEOUT,
        header_bytes_max: 8192,
    }
}

async fn run_limited(limits: ListenLimits, drain_timeout: Duration) -> TestListener {
    serve_with(bind(limits).await, drain_timeout)
}

async fn bind(limits: ListenLimits) -> Listener {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    Listener::bind("test", "listen", any, limits).await.unwrap()
}

fn serve_with(listener: Listener, drain_timeout: Duration) -> TestListener {
    let address = listener.address();
    #[expect(clippy::disallowed_methods, reason = "bounded by the test")]
    let (sender, slow) = mpsc::unbounded_channel();
    let answer = move |request: Request<Incoming>, _peer: Peer| {
        let sender = sender.clone();
        async move {
            if request.uri().path() == "/large" {
                return Response::new(Body::from(vec![b'x'; LARGE_BYTES]));
            }
            if request.uri().path() == "/slow" {
                let _ = sender.send("begun");
                let _watched = DropNotifier(sender);
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
    TestListener {
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
    let begin = Instant::now();
    assert_eq!(
        client.read(&mut [0; 16]).await.unwrap(),
        0,
        "closed when idle for long"
    );
    let lasted = begin.elapsed();
    assert!(lasted < IDLE_TIMEOUT * 2, "{lasted:?}");
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
    drop(client);
    let dropped = timeout(Duration::from_secs(30), running.slow.recv()).await;
    assert_eq!(dropped.unwrap(), Some("dropped"), "it was held");
}

/// The bytes after the request keep hyper from reading the end of input.
#[tokio::test]
async fn a_connection_that_breaks_ends_the_work_whatever_else_was_sent() {
    let mut running = run(10).await;
    let mut client = TcpStream::connect(running.address).await.unwrap();
    let requests = b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\nGET /quick HTTP/1.1\r\n";
    client.write_all(requests).await.unwrap();
    assert_eq!(running.slow.recv().await, Some("begun"));
    client.set_zero_linger().unwrap();
    drop(client);
    let dropped = timeout(Duration::from_secs(30), running.slow.recv()).await;
    assert_eq!(dropped.unwrap(), Some("dropped"));
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_is_cut() {
    let running = run(10).await;
    let mut client = TcpStream::connect(running.address).await.unwrap();
    let request = b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n";
    client.write_all(request).await.unwrap();
    // In steps: after a stall of the machine the listener, which is on the same thread, has its turn before the client.
    for _ in 0..8 {
        sleep(HEADER_TIMEOUT / 2).await;
    }
    let mut received = Vec::new();
    // It may end with an error or without, but it ends early.
    let _ = client.read_to_end(&mut received).await;
    assert!(!received.is_empty() && received.len() < LARGE_BYTES);
}

/// It reads each MiB in time, and all of them in a longer time.
#[tokio::test]
async fn a_client_that_reads_its_answer_slowly_is_not_cut() {
    /// Longer than a machine stalls.
    const WRITE_TIMEOUT: Duration = Duration::from_secs(3);
    const PIECE_BYTES: usize = 1024 * 1024;
    const PAUSE: Duration = Duration::from_millis(75);
    let limits = ListenLimits {
        write_timeout: WRITE_TIMEOUT,
        ..limits(10)
    };
    let running = run_limited(limits, HEADER_TIMEOUT).await;
    let mut reader = TcpStream::connect(running.address).await.unwrap();
    let request = b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n";
    reader.write_all(request).await.unwrap();
    let begin = Instant::now();
    let mut piece = vec![0; PIECE_BYTES];
    for _ in 0..LARGE_BYTES / PIECE_BYTES {
        reader.read_exact(&mut piece).await.unwrap();
        sleep(PAUSE).await;
    }
    assert!(begin.elapsed() > WRITE_TIMEOUT, "it was not slow");
}

#[tokio::test]
async fn a_connection_above_the_limit_is_answered_503_with_retry_after() {
    let running = run(1).await;
    let mut first = TcpStream::connect(running.address).await.unwrap();
    assert!(answer(&mut first).await.ends_with("done"));
    for body_bytes in [0, 1024 * 1024] {
        let mut second = TcpStream::connect(running.address).await.unwrap();
        let head = format!("PUT / HTTP/1.1\r\ncontent-length: {body_bytes}\r\n\r\n");
        second.write_all(head.as_bytes()).await.unwrap();
        // The answer arrives whether or not the body was sent completely.
        let _ = second.write_all(&vec![b'x'; body_bytes]).await;
        let mut received = String::new();
        second.read_to_string(&mut received).await.unwrap();
        assert!(received.starts_with("HTTP/1.1 503 "), "{received}");
        assert!(received.contains("\r\nRetry-After: 1\r\n"), "{received}");
        let (head, body) = received.split_once("\r\n\r\n").unwrap();
        let length = format!("\r\nContent-Length: {}\r\n", body.len());
        assert!(head.contains(&length), "{received}");
    }
    // Served connections are not disturbed, and make room when they end.
    assert!(answer(&mut first).await.ends_with("done"));
    drop(first);
    loop {
        let mut next = TcpStream::connect(running.address).await.unwrap();
        if answer(&mut next).await.ends_with("done") {
            break;
        }
    }
}

/// More connections than the listener answers with 503 at a time: the rest wait until these have
/// timed out after a second.
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
    assert_eq!(running.served.await.unwrap(), DrainResult::Complete);

    running = run(10).await;
    let mut busy = TcpStream::connect(running.address).await.unwrap();
    busy.write_all(b"GET /slow HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(running.slow.recv().await, Some("begun"));
    running.stop.cancel();
    assert_eq!(
        running.served.await.unwrap(),
        DrainResult::ConnectionsCut(1)
    );
    assert_eq!(running.slow.recv().await, Some("dropped"));
}

/// The resources of a request are given back before the process ends.
#[tokio::test]
async fn requests_that_are_cut_have_ended_when_the_listener_has_on_each_thread() {
    let threads = ServingThreads::start(2).unwrap();
    let listener = bind(limits(10)).await.on_threads(&threads);
    let mut running = serve_with(listener, HEADER_TIMEOUT);
    let mut busy = Vec::new();
    for _ in 0..2 {
        let mut client = TcpStream::connect(running.address).await.unwrap();
        client
            .write_all(b"GET /slow HTTP/1.1\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(running.slow.recv().await, Some("begun"));
        busy.push(client);
    }
    running.stop.cancel();
    let drained = running.served.await.unwrap();
    assert_eq!(drained, DrainResult::ConnectionsCut(2));
    for _ in &busy {
        assert_eq!(running.slow.try_recv(), Ok("dropped"));
    }
}

/// The connections and their requests are in the accept queue: on this single-threaded runtime the
/// listener has not run yet.
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
    assert_eq!(running.served.await.unwrap(), DrainResult::Complete);
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
    // Long enough for every task to see the stop.
    sleep(Duration::from_millis(30)).await;
    assert!(answer(&mut used).await.ends_with("done"));
    assert!(answer(&mut fresh).await.ends_with("done"));
    assert_eq!(running.served.await.unwrap(), DrainResult::Complete);
}

/// Reads the state of the server's socket from the kernel.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn keep_alive_probes_detect_a_vanished_client() {
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

/// Each request of the first connection that is answered while the second one waits is one too many, up to the next
/// look at the sockets.
#[tokio::test]
async fn a_client_that_pipelines_requests_does_not_delay_others() {
    const PIPELINED: usize = 3000;
    const BEHIND_MAX: usize = 30;
    let listener = bind(limits(10)).await;
    let address = listener.address();
    let mut other = std::net::TcpStream::connect(address).unwrap();
    let answered = Arc::new(AtomicUsize::new(0));
    let (sent_at, served_at) = (PIPELINED / 10, Arc::new(AtomicUsize::new(PIPELINED)));
    let (count, found) = (Arc::clone(&answered), Arc::clone(&served_at));
    let other_side = Arc::new(other.try_clone().unwrap());
    let answer = move |request: Request<Incoming>, _: Peer| {
        if request.uri().path() == "/quick" {
            found.store(count.load(Ordering::Relaxed), Ordering::Relaxed);
        } else if count.fetch_add(1, Ordering::Relaxed) == sent_at {
            (&*other_side).write_all(REQUEST).unwrap();
        }
        std::future::ready(Response::new(Body::empty()))
    };
    let stop = CancellationToken::new();
    let served = tokio::spawn(listener.serve(answer, stop.clone(), HEADER_TIMEOUT));
    let mut client = TcpStream::connect(address).await.unwrap();
    let requests = b"GET /many HTTP/1.1\r\nhost: x\r\n\r\n".repeat(PIPELINED);
    let (mut reader, mut writer) = client.split();
    let reading = async {
        let mut buffer = vec![0; 64 * 1024];
        while answered.load(Ordering::Relaxed) < PIPELINED {
            assert_ne!(reader.read(&mut buffer).await.unwrap(), 0);
        }
    };
    let (written, ()) = tokio::join!(writer.write_all(&requests), reading);
    written.unwrap();
    let behind = served_at.load(Ordering::Relaxed) - sent_at;
    assert!(behind < BEHIND_MAX, "{behind}");
    stop.cancel();
    let _ = served.await.unwrap();
    let mut text = String::new();
    other.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}
