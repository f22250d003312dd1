//! The connection breaks after Redis has received a call and before its answer arrives. Whether the call was executed
//! is then unknown, so it must fail, and must not be sent a second time.

use std::net::Ipv4Addr;
use std::time::Duration;

use tidegate_core::QueueKey;
use tidegate_store::{Store, StoreConfig, StoreError, Unavailable};
use tidegate_testkit::fault_proxy::{DirectionConditions, ForwardMode, NetworkConditions};
use tidegate_testkit::{FaultProxy, RedisOptions, RedisServer, eventually};

use crate::fixture::{fixture, job};

const WITHIN: Duration = Duration::from_secs(2);
/// Nodes of a cluster listen on 127.0.0.1, and announce this address of the machine, where proxies listen.
const PROXIES: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);

/// How many jobs of the first queue are ready, by the server that has bucket 0.
fn ready(servers: &[RedisServer]) -> u64 {
    let read = |server: &RedisServer| {
        let client = redis::Client::open(server.url()).ok()?;
        let mut get = redis::cmd("HGET");
        get.arg("tg:0:{8209}:q:1").arg("ready");
        // The other servers answer with a redirection.
        get.query(&mut client.get_connection().ok()?).ok()?
    };
    servers.iter().find_map(read).unwrap_or(0)
}

async fn publish_fails_and_stores_one_job(
    store: &Store,
    proxies: &[FaultProxy],
    servers: &[RedisServer],
) {
    let queue = QueueKey::try_from("shop/orders").unwrap();
    store.publish(&queue, &[job("a")], None).await.unwrap();
    let answers_stall = NetworkConditions {
        to_client: DirectionConditions {
            mode: ForwardMode::Stalls,
            ..DirectionConditions::default()
        },
        ..NetworkConditions::default()
    };
    proxies.iter().for_each(|proxy| proxy.set(answers_stall));
    let breaking = async {
        eventually("the job is stored", WITHIN, async || match ready(servers) {
            2 => Ok(()),
            ready => Err(ready),
        })
        .await;
        // In this order: nothing of the answer passes before the cut.
        for proxy in proxies {
            proxy.cut();
        }
        for proxy in proxies {
            proxy.set(NetworkConditions::default());
        }
    };
    let jobs = [job("b")];
    let (published, ()) = tokio::join!(store.publish(&queue, &jobs, None), breaking);
    let error = published.unwrap_err();
    let is_away = matches!(
        error,
        StoreError::Unavailable {
            reason: Unavailable::Unreachable,
            ..
        }
    );
    assert!(is_away, "{error:?}");
    store.publish(&queue, &[job("c")], None).await.unwrap();
    assert_eq!(ready(servers), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_whose_answer_is_lost_is_not_sent_again() {
    let f = fixture().await;
    let proxy = FaultProxy::start(f.redis.address(), 0).await;
    let mut config = StoreConfig::new(format!("redis://{}", proxy.address()));
    config.buckets = 1;
    let store = Store::connect(&config).await.unwrap();
    publish_fails_and_stores_one_job(&store, &[proxy], &[f.redis]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_to_a_cluster_whose_answer_is_lost_is_not_sent_again() {
    let options = RedisOptions::new()
        .setting("cluster-announce-hostname", &PROXIES.to_string())
        .setting("cluster-preferred-endpoint-type", "hostname");
    let servers = options.start_cluster(3).servers;
    let mut proxies = Vec::new();
    for server in &servers {
        let listen = (PROXIES, server.port()).into();
        proxies.push(FaultProxy::start_at(listen, server.address(), Duration::ZERO, 0).await);
    }
    let mut config = StoreConfig::new("");
    config.cluster = vec![format!("redis://{}", proxies[0].address())];
    config.buckets = 1;
    let store = Store::connect(&config).await.unwrap();
    publish_fails_and_stores_one_job(&store, &proxies, &servers).await;
}
