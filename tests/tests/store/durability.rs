//! The store while Redis loses its scripts, is full or stops, and with the wrong deployment.

use std::time::{Duration, Instant};

use tidegate_core::JobState;
use tidegate_core::v1::consume::Outcome;
use tidegate_store::{
    CancelOutcome, ConnectError, ServerCheckError, Store, StoreConfig, StoreError, Unavailable,
};

use tidegate_testkit::{RedisControl, RedisOptions};

use crate::fixture::{START, fixture, fixture_on, job};

#[tokio::test]
async fn scripts_are_loaded_again_after_a_flush() {
    let f = fixture().await;
    for _ in 0..3 {
        redis::cmd("SCRIPT")
            .arg("FLUSH")
            .exec(&mut f.connection())
            .unwrap();
        f.publish(START, job("a")).await;
        redis::cmd("SCRIPT")
            .arg("FLUSH")
            .exec(&mut f.connection())
            .unwrap();
        f.expect(START, &["a"]).await;
    }
}

/// A script may be flushed between its loading and the call that follows.
#[tokio::test]
async fn constant_script_flushes_fail_no_call() {
    const CALLS: usize = 500;
    let f = fixture().await;
    let mut control = RedisControl::connect(&f.redis.url()).await;
    let forgetting = async {
        loop {
            control.flush_scripts().await;
        }
    };
    let publishing = async {
        for _ in 0..CALLS {
            f.publish(START, job("x")).await;
        }
    };
    tokio::select! {
        () = forgetting => {}
        () = publishing => {}
    }
    assert_eq!(f.reserve(START, 1000, 1000).await.len(), CALLS);
}

#[tokio::test]
async fn a_full_server_refuses_new_jobs_and_executes_the_other_verbs() {
    let f = fixture().await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(f.publish(START, job("x")).await);
    }
    let set = |bytes: u64| {
        let set = redis::cmd("CONFIG")
            .arg("SET")
            .arg("maxmemory")
            .arg(bytes)
            .to_owned();
        set.exec(&mut f.connection()).unwrap();
    };
    set(1);
    let refused = f
        .store
        .publish(&f.queue, &[job("y")], None)
        .await
        .unwrap_err();
    assert!(
        matches!(
            refused,
            StoreError::Unavailable {
                reason: Unavailable::OutOfMemory,
                ..
            }
        ),
        "{refused:?}"
    );
    assert_eq!(
        f.counts().await,
        [0, 20, 0, 0],
        "nothing was half published"
    );
    assert_eq!(f.reserve(START, 10, 5).await.len(), 10);
    let _ = f.store.ack(&f.queue, ids[0], None).await.unwrap();
    let cancelled = f
        .store
        .cancel(&f.queue, ids[19], tidegate_core::IfRunning::Refuse)
        .await
        .unwrap();
    assert_eq!(
        cancelled,
        CancelOutcome::Done {
            id: ids[19],
            was: JobState::Ready
        }
    );
    assert_eq!(f.move_due(START + 65_536).await.buried, 9);
    set(0);
    f.publish(START, job("y")).await;
}

#[tokio::test]
async fn calls_fail_soon_while_redis_is_down_and_work_again_afterwards() {
    let mut f = fixture_on(RedisOptions::new().always_synced()).await;
    let id = f.publish(START, job("kept")).await;
    f.redis.kill();
    for _ in 0..3 {
        let begun = Instant::now();
        let failed = f.store.peek_job(&f.queue, id).await.unwrap_err();
        assert!(
            matches!(
                failed,
                StoreError::Unavailable {
                    reason: Unavailable::Unreachable,
                    ..
                }
            ),
            "{failed:?}"
        );
        assert!(
            begun.elapsed() < Duration::from_secs(4),
            "{:?}",
            begun.elapsed()
        );
    }
    f.redis.restart().unwrap();
    let back = Instant::now();
    while f.store.check_writable().await.is_err() {
        assert!(back.elapsed() < Duration::from_secs(10));
    }
    assert!(
        f.store
            .at(START)
            .peek_job(&f.queue, id)
            .await
            .unwrap()
            .is_some()
    );
    let acked = f.store.at(START).ack(&f.queue, id, None).await.unwrap();
    assert_eq!(acked.outcome, Outcome::DONE);
}

#[tokio::test]
async fn a_deployment_with_another_number_of_buckets_is_refused() {
    let f = fixture().await;
    let mut config = StoreConfig::new(f.redis.url());
    config.buckets = 2;
    let refused = Store::connect(&config).await.unwrap_err();
    let ConnectError::Refused(ServerCheckError::OtherLayout { found, ours }) = &refused else {
        panic!("{refused:?}")
    };
    assert!(
        found.starts_with("layout=2 buckets=1 slot_ms=65536 id="),
        "{found}"
    );
    assert_eq!(ours, "layout=2 buckets=2 slot_ms=65536 id=…");
}
