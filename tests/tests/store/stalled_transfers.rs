//! Large transfers do not delay small calls.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_core::QueueKey;
use tidegate_core::v1::consume::Outcome;
use tidegate_store::{Claim, LeaseOutcome, Store, StoreConfig};
use tidegate_testkit::start_redis;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};

use crate::fixture::{TOKEN, job};
use crate::outside_bodies::sized;

/// A connection is stalled after this many bytes in one direction: far more than those of all small calls.
const STALL_AT_BYTES: usize = 256 * 1024;
const LARGE: usize = 1_000_000;

/// A proxy to Redis that stalls large transfers half-way.
struct StallingProxy {
    address: SocketAddr,
    gate: Arc<Gate>,
}

struct Gate {
    stalled: Notify,
    open: Semaphore,
    connections: AtomicUsize,
}

impl StallingProxy {
    async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let gate = Arc::new(Gate {
            stalled: Notify::new(),
            open: Semaphore::new(0),
            connections: AtomicUsize::new(0),
        });
        let kept = Arc::clone(&gate);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                gate.connections.fetch_add(1, Ordering::SeqCst);
                let server = TcpStream::connect(target).await.unwrap();
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(pass_on(from_client, to_server, Arc::clone(&gate)));
                tokio::spawn(pass_on(from_server, to_client, Arc::clone(&gate)));
            }
        });
        Self {
            address,
            gate: kept,
        }
    }

    /// Lets one stalled transfer continue to its end.
    fn let_one_go_on(&self) {
        self.gate.open.add_permits(1);
    }
}

async fn pass_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, gate: Arc<Gate>) {
    let (mut passed, mut is_stalled) = (0, false);
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
        passed += bytes;
        if passed > STALL_AT_BYTES && !is_stalled {
            is_stalled = true;
            gate.stalled.notify_one();
            gate.open.acquire().await.unwrap().forget();
        }
        if to.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
    }
}

async fn small_jobs_come_and_go(store: &Store) {
    let queue = QueueKey::try_from("shop/small").unwrap();
    let claim = Claim::new(1, 60_000);
    for _ in 0..20 {
        let id = store.publish(&queue, &[job("x")], None).await.unwrap()[0];
        let reserved = store.reserve(&queue, &[claim]).await.unwrap();
        assert_eq!(reserved.jobs[0][0].id, id);
        let acked = store.ack(&queue, id, None).await.unwrap();
        assert_eq!(acked.outcome, Outcome::DONE);
    }
}

#[tokio::test]
async fn small_calls_do_not_wait_for_stalled_large_transfers() {
    let redis = start_redis();
    let proxy = StallingProxy::start(redis.address()).await;
    let mut config = StoreConfig::new(format!("redis://{}", proxy.address));
    config.buckets = 1;
    // The stall has to last for as long as the small calls take, on any machine.
    config.command_timeout = std::time::Duration::from_secs(60);
    let store = Store::connect(&config).await.unwrap();
    let leased = store.lease_acquire(0, TOKEN, &[]).await.unwrap();
    assert_eq!(leased, LeaseOutcome::Ours);
    let queue = QueueKey::try_from("shop/large").unwrap();

    let large = sized(LARGE);
    let publishing = store.publish(&queue, std::slice::from_ref(&large), None);
    let meanwhile = async {
        proxy.gate.stalled.notified().await;
        small_jobs_come_and_go(&store).await;
        let stats = store.stats(&queue).await.unwrap();
        assert_eq!(stats.ready, 0, "the publish is still in flight");
        proxy.let_one_go_on();
    };
    let (published, ()) = tokio::join!(publishing, meanwhile);
    let id = published.unwrap()[0];

    let claims = [Claim::new(1, 60_000)];
    let reserving = store.reserve(&queue, &claims);
    let meanwhile = async {
        proxy.gate.stalled.notified().await;
        small_jobs_come_and_go(&store).await;
        proxy.let_one_go_on();
    };
    let (reserved, ()) = tokio::join!(reserving, meanwhile);
    let job = &reserved.unwrap().jobs[0][0];
    assert_eq!((job.id, &job.body), (id, &large.body));
    assert_eq!(proxy.gate.connections.load(Ordering::SeqCst), 2);
}
