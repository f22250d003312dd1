//! The Redis that stores the keys is unavailable.

use std::time::{Duration, Instant};

use tidegate_core::Scope;
use tidegate_engine::{AccessError, CreateKeyError, EngineError};
use tidegate_testkit::eventually;
use tokio::time::{sleep, timeout};

use crate::fixture::{Engines, PATIENCE, authenticate, is_accepted, new_key};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn known_keys_are_accepted_while_redis_is_down() {
    let mut engines = Engines::start().await;
    let known = engines.key("shop", &[Scope::Publish]).await;
    let unknown = engines.key("shop", &[Scope::Publish]).await;
    assert!(is_accepted(&engines.here, &known.text).await);
    // The cached answer is no longer fresh.
    sleep(Duration::from_millis(1500)).await;
    tokio::task::block_in_place(|| engines.redis.kill());
    for _ in 0..3 {
        assert!(is_accepted(&engines.here, &known.text).await);
    }
    // A wrong secret of a known key needs no Redis to be refused.
    let (head, _) = known.text.rsplit_once('_').unwrap();
    let forged = format!("{head}_{}", "0".repeat(26));
    assert!(!is_accepted(&engines.here, &forged).await);
    let error = authenticate(&engines.here, &unknown.text)
        .await
        .unwrap_err();
    assert_eq!(error, AccessError::Failed(EngineError::Unchecked));
    let creating = engines
        .here
        .create_key(new_key("shop", &[Scope::Read], None));
    let error = creating.await.unwrap_err();
    assert_eq!(error, CreateKeyError::Failed(EngineError::StorageFailed));
    let deleting = engines.here.delete_key(known.id.as_str());
    assert_eq!(deleting.await.unwrap_err(), EngineError::StorageFailed);
    tokio::task::block_in_place(|| engines.redis.restart().unwrap());
    eventually("the other key is checked", PATIENCE, async || {
        authenticate(&engines.here, &unknown.text).await
    })
    .await;
}

/// The expiry was learned with the key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_expires_while_redis_is_down() {
    const LASTS: Duration = Duration::from_secs(4);
    /// Half a second is needed.
    const ENDED_WITHIN: Duration = Duration::from_secs(16);
    let mut engines = Engines::start().await;
    let engine = engines.here.clone();
    let began_at = Instant::now();
    let key = engines.expiring_key(LASTS).await;
    let client = authenticate(&engine, &key.text).await.unwrap();
    let permit = engine
        .room
        .take(None, client.credential, client.ends_at, 1)
        .unwrap();
    tokio::task::block_in_place(|| engines.redis.kill());
    assert!(is_accepted(&engine, &key.text).await);
    let ended = timeout(LASTS + ENDED_WITHIN, permit.revoked()).await;
    ended.unwrap();
    assert!(began_at.elapsed() + Duration::from_millis(100) > LASTS);
    assert!(!is_accepted(&engine, &key.text).await);
}
