//! Many large uploads over a slow link take turns.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use futures_util::future::join_all;
use tidegate_core::{NewJob, QueueKey};
use tidegate_store::{Store, StoreConfig};
use tidegate_testkit::start_redis;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};

use crate::outside_bodies::sized;

/// The link transfers the uploads that are in flight together in a tenth of the command timeout, and all uploads in a
/// little more than the timeout.
const BYTES_PER_SECOND: u32 = 7 << 20;
const COMMAND_TIMEOUT: Duration = Duration::from_secs(6);
const UPLOADS: usize = 50;
const BYTES: usize = 1_000_000;

/// Starts a proxy to `target` with connections of [`BYTES_PER_SECOND`] to the server.
async fn slow_link(target: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(target).await.unwrap();
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::spawn(pass_slowly(from_client, to_server));
            tokio::spawn(pass(from_server, to_client));
        }
    });
    address
}

async fn pass_slowly(mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin) {
    let mut buffer = vec![0; 64 * 1024];
    let mut free_at = Instant::now();
    while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
        let took = Duration::from_secs(1) * bytes as u32 / BYTES_PER_SECOND;
        free_at = free_at.max(Instant::now()) + took;
        sleep_until(free_at).await;
        if to.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
    }
}

async fn pass(
    mut from: impl tokio::io::AsyncRead + Unpin,
    mut to: impl tokio::io::AsyncWrite + Unpin,
) {
    // Either side may close the connection at any time.
    let _ = copy(&mut from, &mut to).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_that_together_exceed_the_command_timeout_are_all_stored() {
    let redis = start_redis();
    let address = slow_link(redis.address()).await;
    let mut config = StoreConfig::new(format!("redis://{address}"));
    config.command_timeout = COMMAND_TIMEOUT;
    let store = Store::connect(&config).await.unwrap();
    let queue = QueueKey::try_from("shop/large").unwrap();
    let jobs: Vec<NewJob> = (0..UPLOADS).map(|_| sized(BYTES)).collect();
    let began = Instant::now();
    let publishing = jobs.iter().map(|job| {
        let (store, queue) = (&store, &queue);
        async move { store.publish(queue, std::slice::from_ref(job), None).await }
    });
    for published in join_all(publishing).await {
        published.unwrap();
    }
    let took = began.elapsed();
    assert!(took > COMMAND_TIMEOUT, "the link was fast: {took:?}");
    assert_eq!(store.stats(&queue).await.unwrap().ready, UPLOADS as u64);
}
