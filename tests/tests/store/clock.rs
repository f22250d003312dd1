//! Expiry, and what the clock of Redis decides.

use std::time::{Duration, Instant};

use tidegate_core::NewJob;
use tidegate_store::{Acked, MovedDue};

use crate::fixture::{START, TOKEN, delayed, fixture, job};

fn expiring(body: &str, ttl_ms: u64) -> NewJob {
    NewJob {
        ttl_ms,
        ..job(body)
    }
}

#[tokio::test]
async fn expired_jobs_are_neither_delivered_nor_shown() {
    let f = fixture().await;
    let id = f.publish(START, expiring("gone", 100)).await;
    f.publish(START, job("stays")).await;
    let store = f.store.at(START + 100);
    assert!(
        f.store
            .at(START + 99)
            .peek_job(&f.queue, id)
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(store.peek_job(&f.queue, id).await.unwrap(), None);
    assert_eq!(
        &store.peek_ready(&f.queue).await.unwrap().unwrap().job.body[..],
        b"stays"
    );
    assert_eq!(
        store.ack(&f.queue, id, None).await.unwrap(),
        Acked::AlreadyGone
    );
    f.expect(START + 100, &["stays"]).await;
    assert_eq!(f.counts().await, [0, 0, 1, 0]);
}

#[tokio::test]
async fn an_expired_job_at_the_head_is_not_reserved() {
    let f = fixture().await;
    f.publish(START, expiring("gone", 100)).await;
    f.publish(START, job("stays")).await;
    f.expect(START + 100, &["stays"]).await;
    assert_eq!(f.counts().await, [0, 0, 1, 0]);
}

#[tokio::test]
async fn a_job_that_expires_before_it_is_moved_does_not_become_ready() {
    let f = fixture().await;
    f.move_due(START).await;
    let due_then_expired = NewJob {
        ttl_ms: 200,
        ..delayed("gone", 100)
    };
    f.publish(START, due_then_expired).await;
    let moved = f.move_due(START + 200).await;
    assert_eq!((moved.ready, moved.expired), (0, 1));
    assert_eq!(f.counts().await, [0, 0, 0, 0]);
}

#[tokio::test]
async fn the_sweep_gives_memory_and_counts_back_from_every_state_but_dead() {
    let f = fixture().await;
    f.move_due(START).await;
    let ttl_ms = 10_000;
    f.publish(START, expiring("dead", ttl_ms)).await;
    f.reserve(START, 1, 1).await;
    f.move_due(START + 1).await;
    f.publish(START, expiring("leased", ttl_ms)).await;
    f.reserve(START, 1, 180_000).await;
    f.publish(
        START,
        NewJob {
            ttl_ms,
            ..delayed("delayed", 9_999)
        },
    )
    .await;
    f.publish(START, expiring(&"ready".repeat(3000), ttl_ms))
        .await;
    f.publish(START, expiring("later", ttl_ms + 5)).await;
    assert_eq!(f.counts().await, [1, 2, 1, 1]);
    assert_eq!(f.sweep(START + ttl_ms - 1).await, 0);
    assert_eq!(f.sweep(START + ttl_ms).await, 3);
    assert_eq!(f.counts().await, [0, 1, 0, 1]);
    assert_eq!(
        f.sweep(START + ttl_ms + 5).await,
        0,
        "not twice within a second"
    );
    assert_eq!(f.sweep(START + ttl_ms + 1000).await, 1);
    assert_eq!(f.counts().await, [0, 0, 0, 1]);
    let far_hint_of_the_lease = format!("tg:0:{{8209}}:far:{}", (START + 180_000) / 65_536);
    let expected = [
        "tg:0:{8209}:c:10000",
        "tg:0:{8209}:dead:1",
        &far_hint_of_the_lease,
        "tg:0:{8209}:slots",
    ];
    assert_eq!(f.keys_of_jobs(), expected);
}

#[tokio::test]
async fn a_respawned_job_expires_by_its_new_time_to_live() {
    let f = fixture().await;
    f.move_due(START).await;
    f.publish(START, job("a")).await;
    f.reserve(START, 1, 1).await;
    f.move_due(START + 1).await;
    assert_eq!(
        f.store
            .at(START + 1)
            .respawn(&f.queue, 1, 50)
            .await
            .unwrap(),
        1
    );
    assert_eq!(f.sweep(START + 50).await, 0);
    assert_eq!(f.sweep(START + 51).await, 1);
    assert_eq!(f.counts().await, [0, 0, 0, 0]);
}

#[tokio::test]
async fn a_queue_without_consumers_does_not_grow_by_what_expired() {
    let f = fixture().await;
    for round in 0..40 {
        let now = START + round * 1000;
        let jobs = vec![expiring("x", 1500); 50];
        f.store
            .at(now)
            .publish(&f.queue, &jobs, None)
            .await
            .unwrap();
        f.sweep(now).await;
    }
    let list: usize = redis::cmd("LLEN")
        .arg("tg:0:{8209}:ready:1")
        .query(&mut f.connection())
        .unwrap();
    assert!(list <= 200, "{list} hints for {:?} jobs", f.counts().await);
}

#[tokio::test]
async fn without_a_stopped_clock_redis_decides_and_is_never_early() {
    let f = fixture().await;
    let load = f.store.load_slot(0, TOKEN, 100);
    let _ = load.await.unwrap();
    for _ in 0..20 {
        let before = Instant::now();
        f.store
            .publish(&f.queue, &[delayed("soon", 20)], None)
            .await
            .unwrap();
        // Asks without a pause: the first answer that has the job must not come before its time.
        loop {
            let moved = f.store.move_due(0, TOKEN, 10).await.unwrap();
            let MovedDue::Done {
                latenesses_ms,
                next_in_us,
                ..
            } = moved
            else {
                panic!("the test leads the bucket")
            };
            if latenesses_ms.is_empty() {
                let left = Duration::from_micros(next_in_us.unwrap());
                assert!(left <= Duration::from_millis(21), "{left:?}");
                continue;
            }
            assert!(
                before.elapsed() >= Duration::from_millis(20),
                "{:?}",
                before.elapsed()
            );
            break;
        }
    }
}
