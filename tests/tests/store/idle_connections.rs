//! Connections that were closed, or fell silent, while they were idle or used for short calls only.

use std::time::{Duration, Instant};

use tidegate_core::QueueKey;
use tidegate_store::{Store, StoreConfig};
use tidegate_testkit::{FaultProxy, eventually, seed, start_redis};
use tokio::time::{sleep, timeout};

use crate::fixture::job;

/// A connection is checked before it is used after 2.5 s without calls.
const IDLE: Duration = Duration::from_secs(3);
/// A call on a silent connection times out after this time.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// A check waits for 1 s, the limit for connecting.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// The first calls over each connection succeed after this event, which meets all connections while they are idle.
async fn first_calls_succeed_after(event: impl Fn(&FaultProxy)) {
    let redis = start_redis();
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
async fn connections_closed_while_idle_fail_no_call() {
    first_calls_succeed_after(FaultProxy::cut).await;
}

/// This is what a firewall does that drops connections without traffic.
#[tokio::test]
async fn connections_that_fall_silent_while_idle_fail_no_call() {
    first_calls_succeed_after(FaultProxy::make_half_open).await;
}

/// Calls of pumps for their leases have a separate, shorter limit. A pump without other calls once kept a silent
/// connection, and got no lease, for ever.
#[tokio::test]
async fn short_calls_replace_a_connection_that_no_longer_answers() {
    const SHORT: Duration = Duration::from_millis(200);
    let redis = start_redis();
    let proxy = FaultProxy::start(redis.address(), seed()).await;
    let mut config = StoreConfig::new(format!("redis://{}", proxy.address()));
    config.command_timeout = Duration::from_secs(2);
    let store = Store::connect(&config).await.unwrap();
    let queue = QueueKey::try_from("shop/orders").unwrap();
    store.stats(&queue).await.unwrap();
    proxy.make_half_open();
    let ask = async || timeout(SHORT, store.stats(&queue)).await;
    assert!(ask().await.is_err());
    eventually("a short call is answered", ANSWER_MAX, ask)
        .await
        .unwrap();
}
