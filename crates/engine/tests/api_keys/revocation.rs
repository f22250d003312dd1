//! Deleted, damaged and expired keys, and the consumers that wait with them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate_core::{Namespace, Scope};
use tidegate_engine::{CreatedApiKey, Credential, Engine};
use tidegate_testkit::{eventually, print_figure};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::fixture::{Engines, KEYS, PATIENCE, REVOKED_WITHIN, authenticate, is_accepted};

/// Consumers that wait with a key; each ends when its wait is ended.
async fn park(engine: &Arc<Engine>, key: &CreatedApiKey, count: usize) -> Vec<JoinHandle<Instant>> {
    let mut parked = Vec::new();
    for _ in 0..count {
        let client = authenticate(engine, &key.text).await.unwrap();
        let room = &engine.room;
        let permit = room
            .take(None, client.credential, client.ends_at, 1)
            .unwrap();
        parked.push(tokio::spawn(async move {
            permit.revoked().await;
            Instant::now()
        }));
    }
    parked
}

/// Waits until all have ended, and returns the time from `since` to the last end.
async fn all_ended(parked: Vec<JoinHandle<Instant>>, since: Instant) -> Duration {
    let ends = timeout(PATIENCE, join_all(parked)).await.unwrap();
    let last = ends.into_iter().map(Result::unwrap).max().unwrap();
    last.saturating_duration_since(since)
}

/// The waits with a key end in both processes within a second, and the key is refused there; the waits with another
/// key continue. `end` is called at the fixture with the key.
async fn the_waits_end(figure: &str, end: impl AsyncFnOnce(&mut Engines, &CreatedApiKey)) {
    let mut engines = Engines::start().await;
    let revoked = engines.key("shop", &[Scope::Consume]).await;
    let kept = engines.key("shop", &[Scope::Consume]).await;
    let here = park(&engines.here, &revoked, 3).await;
    let there = park(&engines.there, &revoked, 3).await;
    let continuing = park(&engines.there, &kept, 1).await;
    let revoked_at = Instant::now();
    end(&mut engines, &revoked).await;
    let (here, there) = tokio::join!(all_ended(here, revoked_at), all_ended(there, revoked_at));
    print_figure(&format!(
        "{figure}: waits ended after {here:?} and {there:?}"
    ));
    assert!(
        here < REVOKED_WITHIN && there < REVOKED_WITHIN,
        "{here:?} {there:?}"
    );
    for engine in [&engines.here, &engines.there] {
        // The look-up that ended the waits has removed the key from the cache.
        assert!(!is_accepted(engine, &revoked.text).await);
        assert!(is_accepted(engine, &kept.text).await);
    }
    assert_eq!(engines.there.room.credentials(), [Credential::Key(kept.id)]);
    assert!(!continuing[0].is_finished());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_ends_the_waits_of_every_process() {
    the_waits_end("deleted", async |engines, key| {
        assert!(engines.here.delete_key(key.id.as_str()).await.unwrap());
        assert!(!engines.here.delete_key(key.id.as_str()).await.unwrap());
    })
    .await;
}

/// No process is notified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_deleted_in_redis_ends_the_waits_with_it() {
    the_waits_end("deleted in Redis", async |engines, key| {
        assert!(engines.control.delete_field(KEYS, key.id.as_str()).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_ends_the_waits_with_a_key() {
    the_waits_end("damaged", Engines::damage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_with_a_token_end_beside_waits_with_keys() {
    let engines = Engines::start().await;
    let engine = &engines.here;
    let key = engines.key("shop", &[Scope::Consume]).await;
    let continuing = park(engine, &key, 1).await;
    let namespace = Namespace::try_from("shop").unwrap();
    let token = "a-token-of-the-user-1";
    let tokens = &engine.tokens;
    let _ = tokens
        .create("default", &namespace, token, "x")
        .await
        .unwrap();
    let client = authenticate(engine, token).await.unwrap();
    let permit = engine
        .room
        .take(None, client.credential, client.ends_at, 1)
        .unwrap();
    let deleting = engines.there.tokens.delete("default", &namespace, token);
    deleting.await.unwrap();
    timeout(PATIENCE, permit.revoked()).await.unwrap();
    assert!(!continuing[0].is_finished());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_key_is_refused_here_at_once_and_elsewhere_within_a_second() {
    let engines = Engines::start().await;
    let key = engines.key("shop", &[Scope::Read]).await;
    for engine in [&engines.here, &engines.there] {
        assert!(is_accepted(engine, &key.text).await);
    }
    let deleted_at = Instant::now();
    engines.here.delete_key(key.id.as_str()).await.unwrap();
    assert!(!is_accepted(&engines.here, &key.text).await);
    eventually(
        "it is refused elsewhere",
        PATIENCE,
        async || match is_accepted(&engines.there, &key.text).await {
            true => Err("accepted"),
            false => Ok(()),
        },
    )
    .await;
    let took = deleted_at.elapsed();
    print_figure(&format!(
        "deleted in another process: refused after {took:?}"
    ));
    assert!(took < REVOKED_WITHIN, "{took:?}");
}

/// The waits end within half a second after the expiry, and not before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_key_is_refused_and_ends_its_waits() {
    const LASTS: Duration = Duration::from_secs(3);
    let engines = Engines::start().await;
    let lasting = engines.key("shop", &[Scope::Consume]).await;
    let began_at = Instant::now();
    let key = engines.expiring_key(LASTS).await;
    let parked = park(&engines.there, &key, 2).await;
    let continuing = park(&engines.there, &lasting, 1).await;
    assert!(is_accepted(&engines.here, &key.text).await);
    let client = authenticate(&engines.here, &key.text).await.unwrap();
    assert_eq!(client.grant.expires_at_ms, key.key.expires_at_ms);
    let ended_after = all_ended(parked, began_at).await;
    print_figure(&format!(
        "expired after {LASTS:?}: waits ended after {ended_after:?}"
    ));
    // Clocks of Redis are read in whole milliseconds.
    assert!(
        ended_after + Duration::from_millis(100) > LASTS,
        "{ended_after:?}"
    );
    assert!(ended_after < LASTS + REVOKED_WITHIN, "{ended_after:?}");
    for engine in [&engines.here, &engines.there] {
        assert!(!is_accepted(engine, &key.text).await);
        assert!(is_accepted(engine, &lasting.text).await);
    }
    assert!(!continuing[0].is_finished());
}
