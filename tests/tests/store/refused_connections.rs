//! A server that refuses to set up connections for a while: the client library keeps such a refusal.

use std::time::{Duration, Instant};

use tidegate_store::{Store, StoreConfig, StoreError, Unavailable};
use tidegate_testkit::{RedisServer, eventually, redis};
use tokio::time::sleep;

const PATIENCE: Duration = Duration::from_secs(60);
/// A connection is made again with the first call that comes 0.2 s after a refusal.
const RECOVERY_MAX: Duration = Duration::from_secs(10);

/// Restarts a server with this many databases.
fn restart_with(redis: &mut RedisServer, databases: &str) {
    redis.kill();
    redis.set_for_next_start("databases", databases);
    redis.start_again().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_missing_for_a_while_is_selected_again() {
    let mut redis = redis();
    let config = StoreConfig::new(format!("{}/5", redis.url()));
    let store = Store::connect(&config).await.unwrap();
    tokio::task::block_in_place(|| restart_with(&mut redis, "1"));
    eventually("the database is refused", PATIENCE, async || {
        match store.ping().await {
            Err(StoreError::Unavailable {
                reason: Unavailable::Forbidden,
                ..
            }) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // Each of these calls may be what connects again.
    for _ in 0..20 {
        assert!(store.ping().await.is_err());
        sleep(Duration::from_millis(50)).await;
    }
    tokio::task::block_in_place(|| restart_with(&mut redis, "16"));
    let back_at = Instant::now();
    eventually("the database is selected", PATIENCE, async || {
        store.ping().await.map_err(|error| error.to_string())
    })
    .await;
    let took = back_at.elapsed();
    assert!(took < RECOVERY_MAX, "{took:?}");
}
