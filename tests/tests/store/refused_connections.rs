//! A server that refuses the setup of connections for a while. The client library alone would keep the refusal.

use std::time::{Duration, Instant};

use tidegate_store::{Store, StoreConfig, StoreError, Unavailable};
use tidegate_testkit::{RedisServer, eventually, start_redis};
use tokio::time::sleep;

const PATIENCE: Duration = Duration::from_secs(60);
/// The first call from 0.2 s after a refusal on reconnects.
const RECOVERY_MAX: Duration = Duration::from_secs(10);

/// Restarts a server with this many databases.
fn restart_with(redis: &mut RedisServer, databases: &str) {
    redis.kill();
    redis.set_for_next_start("databases", databases);
    redis.restart().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_temporarily_missing_database_is_selected_again() {
    let mut redis = start_redis();
    let config = StoreConfig::new(format!("{}/5", redis.url()));
    let store = Store::connect(&config).await.unwrap();
    tokio::task::block_in_place(|| restart_with(&mut redis, "1"));
    eventually("the database is refused", PATIENCE, async || {
        match store.check_writable().await {
            Err(StoreError::Unavailable {
                reason: Unavailable::Forbidden,
                ..
            }) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // Each of these calls may reconnect.
    for _ in 0..20 {
        assert!(store.check_writable().await.is_err());
        sleep(Duration::from_millis(50)).await;
    }
    tokio::task::block_in_place(|| restart_with(&mut redis, "16"));
    let back_at = Instant::now();
    eventually("the database is selected", PATIENCE, async || {
        store
            .check_writable()
            .await
            .map_err(|error| error.to_string())
    })
    .await;
    let took = back_at.elapsed();
    assert!(took < RECOVERY_MAX, "{took:?}");
}
