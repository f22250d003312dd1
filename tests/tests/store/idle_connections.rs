//! Connections that were ended, or fell silent, while nothing was sent over them, or short calls only.

use std::time::{Duration, Instant};

use tidegate_core::QueueKey;
use tidegate_store::{Store, StoreConfig};
use tidegate_testkit::{FaultProxy, eventually, redis, seed};
use tokio::time::{sleep, timeout};

use crate::fixture::job;

/// A connection is checked before it is used after 2.5 s without calls.
const IDLE: Duration = Duration::from_secs(3);
/// A call on a connection that answers nothing is given up after so long.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// A check waits for 1 s, the limit for connecting.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// The first calls over each connection, after something has happened to all of them while they were idle.
async fn first_calls_succeed_after(event: impl Fn(&FaultProxy)) {
    let redis = redis();
    let proxy = FaultProxy::start(redis.address(), seed()).await;
    let mut config = StoreConfig::new(format!("redis://{}", proxy.address()));
    config.command_timeout = COMMAND_TIMEOUT;
    let store = Store::connect(&config).await.unwrap();
    let queue = QueueKey::try_from("shop/orders").unwrap();
    let large = || job(&"x".repeat(100_000));
    let publish = async |job| store.publish(&queue, &[job], None).await.map(drop);
    publish(large()).await.unwrap();
    publish(job("small")).await.unwrap();
    for _ in 0..2 {
        sleep(IDLE).await;
        event(&proxy);
        let began_at = Instant::now();
        publish(large()).await.unwrap();
        publish(job("small")).await.unwrap();
        let took = began_at.elapsed();
        assert!(took < ANSWER_MAX, "{took:?}");
    }
    assert_eq!(store.stats(&queue).await.unwrap().ready, 6);
}

#[tokio::test]
async fn calls_after_an_idle_time_find_connections_that_were_closed() {
    first_calls_succeed_after(FaultProxy::cut).await;
}

/// As a firewall does that forgets connections without traffic.
#[tokio::test]
async fn calls_after_an_idle_time_find_connections_that_fell_silent() {
    first_calls_succeed_after(FaultProxy::silence).await;
}

/// Calls of pumps about their leases have a limit of their own, which is shorter. A pump that had no other calls kept a silent
/// connection, and no lease, for ever.
#[tokio::test]
async fn short_calls_leave_a_connection_on_which_nothing_is_answered() {
    const SHORT: Duration = Duration::from_millis(200);
    let redis = redis();
    let proxy = FaultProxy::start(redis.address(), seed()).await;
    let mut config = StoreConfig::new(format!("redis://{}", proxy.address()));
    config.command_timeout = Duration::from_secs(2);
    let store = Store::connect(&config).await.unwrap();
    let queue = QueueKey::try_from("shop/orders").unwrap();
    store.stats(&queue).await.unwrap();
    proxy.silence();
    let ask = async || timeout(SHORT, store.stats(&queue)).await;
    assert!(ask().await.is_err());
    eventually("a short call is answered", ANSWER_MAX, ask)
        .await
        .unwrap();
}
