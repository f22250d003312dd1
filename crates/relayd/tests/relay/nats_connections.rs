//! Which servers of NATS a relay of the API dials, and when.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tidegate_testkit::{Stack, eventually};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::endpoint::ANY_PORT;
use crate::fixture::{LIMIT, QUEUE, RelayDaemon, RelayedQueue};
use crate::stored::{put, settings, shows};

/// Longer than the client library waits between its attempts to connect.
const DIALS_WITHIN: Duration = Duration::from_secs(5);

/// A server that speaks as much of NATS as a connection needs, and stores nothing.
struct FakeServer {
    address: SocketAddr,
    connected: Arc<AtomicUsize>,
    is_closed: Arc<AtomicBool>,
}

impl FakeServer {
    /// `advertised` is another server of its cluster.
    async fn start(advertised: &str) -> Self {
        let listener = TcpListener::bind(ANY_PORT).await.unwrap();
        let address = listener.local_addr().unwrap();
        let info = json!({
            "server_id": "A", "server_name": "a", "version": "2.9.0", "go": "1", "host": "127.0.0.1", "port": address.port(),
            "headers": true, "max_payload": 1_048_576, "proto": 1, "client_id": 1, "connect_urls": [advertised],
        });
        let (connected, is_closed) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (count, closed) = (Arc::clone(&connected), Arc::clone(&is_closed));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                if !closed.load(Ordering::Relaxed) {
                    tokio::spawn(serve(stream, info.to_string(), Arc::clone(&closed)));
                }
            }
        });
        Self {
            address,
            connected,
            is_closed,
        }
    }

    fn connected(&self) -> usize {
        self.connected.load(Ordering::Relaxed)
    }
}

async fn serve(mut stream: TcpStream, info: String, is_closed: Arc<AtomicBool>) {
    let (read, mut write) = stream.split();
    let mut lines = BufReader::new(read).lines();
    let _ = write.write_all(format!("INFO {info}\r\n").as_bytes()).await;
    let tick = Duration::from_millis(50);
    while !is_closed.load(Ordering::Relaxed) {
        match tokio::time::timeout(tick, lines.next_line()).await {
            Ok(Ok(Some(line))) if line.starts_with("PING") => {
                let _ = write.write_all(b"PONG\r\n").await;
            }
            Ok(Ok(Some(_))) | Err(_) => {}
            Ok(_) => return,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_servers_of_the_settings_are_dialled_and_none_after_the_relay_is_deleted() {
    let stack = Stack::builder().start().await;
    let queue = RelayedQueue::new(&stack, "dials").await;
    let other = FakeServer::start("").await;
    let server = FakeServer::start(&other.address.to_string()).await;
    let more = "allow_hosts = [\"127.0.0.1\"]";
    let relay = RelayDaemon::start(&[&settings(&stack, more).await]).await;
    let definition = json!({
        "source": {"kind": "queue", "queue": QUEUE}, "lease": "9s", "breaker_pause": "100ms", "breaker_pause_max": "200ms",
        "sink": {
            "kind": "nats", "url": format!("nats://{}", server.address), "subject": "s", "user": "u",
            "password": "hunter2", "time_limit": "1s",
        },
    });
    put(&queue, "r", &definition).await;
    queue.publish(0..1).await;
    let dials = async |more_than: usize| {
        eventually("the server is dialled", LIMIT, async || {
            match server.connected() {
                count if count > more_than => Ok(()),
                count => Err(count),
            }
        })
        .await;
    };
    dials(0).await;
    server.is_closed.store(true, Ordering::Relaxed);
    dials(server.connected()).await;
    queue
        .native
        .send("DELETE", "/relays/r", &[], b"")
        .await
        .expect(200);
    shows(&relay, &[], &[]).await;
    eventually("the relay has ended", LIMIT, async || {
        let metrics = relay.daemon.metrics().await;
        if metrics.contains("dials/r") {
            Err(metrics)
        } else {
            Ok(())
        }
    })
    .await;
    let before = server.connected();
    tokio::time::sleep(DIALS_WITHIN).await;
    assert_eq!(server.connected(), before, "dialled without a relay");
    assert_eq!(other.connected(), 0, "a server that is not in the settings");
}
