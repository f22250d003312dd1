//! Two APIs that are restarted one after the other under load.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate_testkit::{Daemon, DaemonProgram, eventually, print_figure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::fixture::{DaemonFixture, LIMIT, ask};

const CLIENTS: usize = 16;
/// Between two requests of a client.
const PAUSE: Duration = Duration::from_millis(4);
/// Between two requests of the balancer for `/readyz`.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
const REQUEST: &[u8] = b"PUT /api/ns/q HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx";
const PROBE: &[u8] = b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

/// A connection that is kept while the server keeps it.
struct RollingClient {
    address: SocketAddr,
    stream: Option<TcpStream>,
}

#[derive(Debug, PartialEq, Eq)]
enum RestartPublish {
    Stored,
    /// No connection was made, so nothing was sent.
    Refused,
    /// It was sent, and there was no answer, or another one.
    Lost(String),
}

impl RollingClient {
    async fn publish(&mut self) -> RestartPublish {
        // A connection that was closed while it was idle is not used again.
        self.stream = self.stream.take().filter(is_open);
        if self.stream.is_none() {
            match TcpStream::connect(self.address).await {
                Ok(stream) => self.stream = Some(stream),
                Err(_) => return RestartPublish::Refused,
            }
        }
        let mut stream = self.stream.take().unwrap();
        match exchange(&mut stream).await {
            Ok(answer) if answer.starts_with("HTTP/1.1 201 ") => {
                if !answer.contains("\r\nConnection: close\r\n") {
                    self.stream = Some(stream);
                }
                RestartPublish::Stored
            }
            Ok(answer) => RestartPublish::Lost(answer),
            Err(error) => RestartPublish::Lost(error.to_string()),
        }
    }
}

fn is_open(stream: &TcpStream) -> bool {
    let read = stream.try_read(&mut [0]);
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// Sends one request and reads its answer, which ends with `}`.
async fn exchange(stream: &mut TcpStream) -> std::io::Result<String> {
    stream.write_all(REQUEST).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

async fn is_ready(address: SocketAddr) -> bool {
    let look = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(PROBE).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    look.await
        .is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200 "))
}

/// The state that all clients share.
#[derive(Default)]
struct Load {
    ready: [AtomicBool; 2],
    has_balancer: bool,
    /// How often each client has chosen an API.
    choices: [AtomicU64; CLIENTS],
    is_over: AtomicBool,
    stored: AtomicU64,
    refused: AtomicU64,
}

impl Load {
    /// Publishes until the load is over. Returns what came instead of each answer that was lost.
    async fn run(self: Arc<Self>, addresses: [SocketAddr; 2], number: usize) -> Vec<String> {
        let mut clients = addresses.map(|address| RollingClient {
            address,
            stream: None,
        });
        let mut lost = Vec::new();
        let mut turn = number;
        while !self.is_over.load(Ordering::Relaxed) {
            self.choices[number].fetch_add(1, Ordering::SeqCst);
            turn += usize::from(self.has_balancer);
            if self.has_balancer && !self.ready[turn % 2].load(Ordering::SeqCst) {
                turn += 1;
            }
            match clients[turn % 2].publish().await {
                RestartPublish::Stored => {
                    self.stored.fetch_add(1, Ordering::Relaxed);
                }
                RestartPublish::Refused => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
                RestartPublish::Lost(why) => lost.push(why),
            }
            sleep(PAUSE).await;
        }
        lost
    }

    async fn watch(self: Arc<Self>, addresses: [SocketAddr; 2]) {
        while !self.is_over.load(Ordering::Relaxed) {
            for (ready, address) in self.ready.iter().zip(addresses) {
                ready.store(is_ready(address).await, Ordering::SeqCst);
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Requests a stop of an API, and waits until the balancer has seen it and no client has a request for this API. A
    /// fixed time for that would be too short on a busy machine.
    async fn divert_from(&self, number: usize, api: &Daemon) {
        let unready = || {
            let ready = self.ready.iter().map(|it| it.load(Ordering::SeqCst));
            ready.filter(|is_ready| !is_ready).count()
        };
        eventually("both are ready", LIMIT, async || match unready() {
            0 => Ok(()),
            unready => Err(unready),
        })
        .await;
        api.terminate();
        eventually("it is not ready", LIMIT, async || {
            match self.ready[number].load(Ordering::SeqCst) {
                false => Ok(()),
                true => Err("ready"),
            }
        })
        .await;
        let choices = || self.choices.each_ref().map(|it| it.load(Ordering::SeqCst));
        let before = choices();
        eventually("each client chooses again", LIMIT, async || {
            let pairs = choices().into_iter().zip(before);
            match pairs.filter(|(now, before)| now == before).count() {
                0 => Ok(()),
                clients => Err(clients),
            }
        })
        .await;
    }
}

/// Restarts both APIs under load. Returns how many connections were refused.
async fn restart_both(has_balancer: bool, drain_delay: &str) -> u64 {
    let fixture = DaemonFixture::new().await;
    let file = fixture.write("own.toml", &format!("drain_delay = \"{drain_delay}\"\n"));
    let flags = ["--config", &file, "-sv"];
    let apis: [Daemon; 2] = [
        fixture.start(DaemonProgram::Api, &flags).await,
        fixture.start(DaemonProgram::Api, &flags).await,
    ];
    let addresses = [apis[0].listen(), apis[1].listen()];
    let load = Arc::new(Load {
        ready: [AtomicBool::new(true), AtomicBool::new(true)],
        has_balancer,
        ..Load::default()
    });
    let watching = tokio::spawn(Arc::clone(&load).watch(addresses));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(Arc::clone(&load).run(addresses, number)))
        .collect();
    let began_at = Instant::now();
    for (number, api) in apis.iter().enumerate().chain(apis.iter().enumerate()) {
        sleep(Duration::from_millis(500)).await;
        if has_balancer {
            // The stop that follows ends the delay.
            load.divert_from(number, api).await;
            // Signals within a second of the first one are the same request.
            sleep(Duration::from_millis(1100)).await;
        }
        assert_eq!(api.stop(LIMIT).await.code(), Some(0));
        api.restart().await;
    }
    sleep(Duration::from_millis(500)).await;
    load.is_over.store(true, Ordering::Relaxed);
    let seconds = began_at.elapsed().as_secs_f64();
    watching.await.unwrap();
    let mut lost = Vec::new();
    for client in clients {
        lost.extend(client.await.unwrap());
    }
    let stored = load.stored.load(Ordering::Relaxed);
    let refused = load.refused.load(Ordering::Relaxed);
    print_figure(&format!(
        "4 restarts, balancer {has_balancer}: {stored} stored ({:.0} a second), {refused} refused, {} lost",
        stored as f64 / seconds,
        lost.len()
    ));
    assert!(
        lost.is_empty(),
        "{} of {stored} lost: {:?}",
        lost.len(),
        lost.first()
    );
    let size = ask(addresses[0], "GET", "/api/ns/q/size", &[])
        .await
        .expect(200);
    assert_eq!(size.json()["size"], stored);
    assert!(stored > 1000, "{stored}");
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_behind_a_balancer_that_checks_readyz() {
    assert_eq!(restart_both(true, "60s").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_balancer_connections_are_refused_and_no_request_is_lost() {
    assert!(restart_both(false, "0s").await > 0);
}
