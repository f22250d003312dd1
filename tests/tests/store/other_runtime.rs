//! A store that several runtimes call, as the threads of an API do.

use tidegate_core::QueueKey;
use tidegate_store::{Store, StoreConfig};
use tidegate_testkit::start_redis;
use tokio::runtime::Builder;

use crate::fixture::job;

/// Calls on both connections, the first ones after all connections were closed.
async fn call(store: &Store) {
    let queue = QueueKey::try_from("shop/orders").unwrap();
    let large = job(&"x".repeat(100_000));
    // The first call after a loss may fail.
    let _ = store.stats(&queue).await;
    store.publish(&queue, &[job("small")], None).await.unwrap();
    let _ = store
        .publish(&queue, std::slice::from_ref(&large), None)
        .await;
    store.publish(&queue, &[large], None).await.unwrap();
}

/// The runtime that reconnects would otherwise own the connections: they would wait for it, and end with it.
#[tokio::test]
async fn connections_stay_in_the_runtime_that_made_the_store() {
    let redis = start_redis();
    let config = StoreConfig::new(redis.url());
    let store = Store::connect(&config).await.unwrap();
    call(&store).await;
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("normal");
    kill.exec(&mut connection).unwrap();
    let called = store.clone();
    let calling = tokio::task::spawn_blocking(move || {
        let other = Builder::new_current_thread().enable_all().build().unwrap();
        other.block_on(call(&called));
    });
    calling.await.unwrap();
    // The other runtime has ended. A connection of its own would be closed now, and this call would fail.
    let queue = QueueKey::try_from("shop/orders").unwrap();
    store
        .publish(&queue, &[job("small")], None)
        .await
        .expect("the connection has not ended");
    let large = job(&"x".repeat(100_000));
    let published = store.publish(&queue, &[large], None).await;
    published.expect("the connection for large transfers has not ended");
}
