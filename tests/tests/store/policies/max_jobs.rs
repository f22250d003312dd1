//! The limit on the number of jobs in the script that publishes.

use std::time::Duration;

use tidegate_store::{Claim, PublishReply};
use tidegate_testkit::consistency;

use crate::fixture::{StoreFixture, all_queues, delayed, fixture, job};

async fn publish(f: &StoreFixture, jobs: usize, max_jobs: u64) -> Result<usize, u64> {
    let jobs = vec![delayed("x", 60_000); jobs];
    match f
        .store
        .try_publish(&f.queue, &jobs, None, Some(max_jobs))
        .await
        .unwrap()
    {
        PublishReply::Done { jobs, .. } => Ok(jobs.len()),
        PublishReply::QueueFull { room } => Err(room),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn jobs_of_all_states_count_and_a_publish_is_stored_as_a_whole_or_not_at_all() {
    let f = fixture().await;
    assert_eq!(publish(&f, 4, 3).await, Err(3));
    assert!(
        all_queues(&f.store).await.is_empty(),
        "a refused publish created the queue"
    );
    assert_eq!(publish(&f, 2, 6).await, Ok(2));
    // One that is dead, one that is leased, one that is ready.
    for body in ["dead", "leased"] {
        f.store.publish(&f.queue, &[job(body)], None).await.unwrap();
    }
    let claim = Claim::new(1, 1);
    let _ = f.store.reserve(&f.queue, &[claim]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let now: (u64, u64) = redis::cmd("TIME").query(&mut f.connection()).unwrap();
    f.move_due(now.0 * 1000 + now.1 / 1000).await;
    let claim = Claim::new(1, 60_000);
    let _ = f.store.reserve(&f.queue, &[claim]).await.unwrap();
    f.store
        .publish(&f.queue, &[job("ready")], None)
        .await
        .unwrap();
    assert_eq!(f.counts().await, [2, 1, 1, 1]);
    assert_eq!(publish(&f, 2, 6).await, Err(1));
    assert_eq!(publish(&f, 1, 5).await, Err(0));
    assert_eq!(publish(&f, 1, 2).await, Err(0), "the limit was lowered");
    assert_eq!(publish(&f, 1, 6).await, Ok(1));
    assert_eq!(f.counts().await, [3, 1, 1, 1]);
    f.store.purge_dead(&f.queue, 10).await.unwrap();
    assert_eq!(publish(&f, 1, 6).await, Ok(1));
    assert_eq!(publish(&f, 1, 6).await, Err(0));
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_full_queue_takes_a_job_in_the_place_of_another() {
    let f = fixture().await;
    let old = f
        .store
        .publish(&f.queue, &[delayed("old", 60_000)], None)
        .await
        .unwrap()[0];
    let new = [job("new")];
    let replaced = f
        .store
        .try_publish(&f.queue, &new, Some(old), Some(1))
        .await
        .unwrap();
    assert!(replaced.stored().is_some());
    // It is gone, so nothing makes room.
    let refused = f
        .store
        .try_publish(&f.queue, &new, Some(old), Some(1))
        .await
        .unwrap();
    assert!(
        matches!(refused, PublishReply::QueueFull { room: 0 }),
        "{refused:?}"
    );
    assert_eq!(f.counts().await, [0, 1, 0, 0]);
    // A refused replacement keeps the old job.
    let held = f
        .store
        .publish(&f.queue, &[delayed("held", 60_000)], None)
        .await
        .unwrap()[0];
    let refused = f
        .store
        .try_publish(&f.queue, &new, Some(held), Some(1))
        .await
        .unwrap();
    assert!(refused.stored().is_none());
    assert!(f.store.peek_job(&f.queue, held).await.unwrap().is_some());
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn damaged_counts_make_the_limit_inexact_and_fail_no_publish() {
    let f = fixture().await;
    assert_eq!(publish(&f, 2, 3).await, Ok(2));
    for (count, outcome) in [("x", Ok(1)), ("-5", Ok(1)), ("99999", Err(0))] {
        let mut damage = redis::cmd("HSET");
        damage.arg("tg:0:{8209}:q:1").arg("delayed").arg(count);
        damage.exec(&mut f.connection()).unwrap();
        assert_eq!(publish(&f, 1, 3).await, outcome, "{count}");
    }
}

#[tokio::test]
async fn concurrent_publishes_never_exceed_the_limit() {
    const LIMIT: u64 = 37;
    let f = fixture().await;
    let publishes = (0..60_usize).map(|number| {
        let (store, queue) = (f.store.clone(), f.queue.clone());
        tokio::spawn(async move {
            let jobs = vec![job("x"); 1 + number % 3];
            let published = store.try_publish(&queue, &jobs, None, Some(LIMIT)).await;
            published
                .unwrap()
                .stored()
                .map_or(0, |stored| stored.len() as u64)
        })
    });
    let mut stored = 0;
    for publish in publishes.collect::<Vec<_>>() {
        stored += publish.await.unwrap();
    }
    assert_eq!(f.counts().await, [0, stored, 0, 0]);
    assert_eq!(stored, LIMIT);
}
