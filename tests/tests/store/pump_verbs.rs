//! Leases of buckets, and the token checks of the verbs that need one.

use std::time::Duration;

use tidegate_core::keys::DeploymentKeys;
use tidegate_store::{LeaseOutcome, LoadSlotOutcome, MoveDueOutcome, SweepOutcome};

use crate::fixture::{START, TOKEN, delayed, fixture};

#[tokio::test]
async fn a_bucket_has_one_leader_until_that_releases_it_or_leaves_the_roster() {
    let f = fixture().await;
    let store = &f.store;
    store.lease_release(0, TOKEN).await.unwrap();
    let acquire = async |token: &str, living: &[&str]| {
        let living: Vec<String> = living.iter().map(ToString::to_string).collect();
        store.lease_acquire(0, token, &living).await.unwrap()
    };
    assert_eq!(acquire("a", &["a", "b"]).await, LeaseOutcome::Ours);
    assert_eq!(
        acquire("a", &["a", "b"]).await,
        LeaseOutcome::Ours,
        "already"
    );
    assert_eq!(acquire("b", &["a", "b"]).await, LeaseOutcome::NotOurs);
    store.lease_release(0, "b").await.unwrap();
    assert_eq!(
        acquire("b", &["a", "b"]).await,
        LeaseOutcome::NotOurs,
        "not b's"
    );
    store.lease_release(0, "a").await.unwrap();
    assert_eq!(
        acquire("b", &["a", "b"]).await,
        LeaseOutcome::Ours,
        "handed over"
    );
    assert_eq!(
        acquire("c", &["a", "c"]).await,
        LeaseOutcome::Ours,
        "b is dead"
    );
    assert_eq!(
        acquire("b", &["b", "c"]).await,
        LeaseOutcome::NotOurs,
        "b is back"
    );
    assert!(matches!(
        store
            .move_due(0, "b", 10, crate::fixture::LOSSES_MAX)
            .await
            .unwrap(),
        MoveDueOutcome::NotLeading
    ));
}

#[tokio::test]
async fn only_the_leader_of_a_bucket_moves_jobs() {
    let f = fixture().await;
    f.publish(START, delayed("a", 10)).await;
    let store = f.store.at(START + 700_000);
    for token in ["somebody else", ""] {
        assert_eq!(
            store
                .move_due(0, token, 10, crate::fixture::LOSSES_MAX)
                .await
                .unwrap(),
            MoveDueOutcome::NotLeading
        );
        assert_eq!(
            store.load_slot(0, token, 10).await.unwrap(),
            LoadSlotOutcome::NotLeading
        );
        assert_eq!(
            store.sweep(0, token, 10).await.unwrap(),
            SweepOutcome::NotLeading
        );
    }
    assert_eq!(f.counts().await, [1, 0, 0, 0]);
    assert_eq!(f.move_due(START + 10).await.ready, 1);
}

#[tokio::test]
async fn two_movers_with_the_same_token_move_no_job_twice() {
    let f = fixture().await;
    f.move_due(START).await;
    for _ in 0..20 {
        f.store
            .at(START)
            .publish(&f.queue, &vec![delayed("x", 10); 50], None)
            .await
            .unwrap();
    }
    let movers = (0..8).map(|_| {
        let store = f.store.at(START + 10);
        tokio::spawn(async move {
            let mut moved = 0;
            while let MoveDueOutcome::Done { latenesses_ms, .. } = store
                .move_due(0, TOKEN, 7, crate::fixture::LOSSES_MAX)
                .await
                .unwrap()
            {
                if latenesses_ms.is_empty() {
                    return moved;
                }
                moved += latenesses_ms.len();
            }
            panic!("the token leads")
        })
    });
    let mut moved = 0;
    for mover in movers.collect::<Vec<_>>() {
        moved += mover.await.unwrap();
    }
    assert_eq!((moved, f.counts().await), (1000, [0, 1000, 0, 0]));
    let list: usize = redis::cmd("LLEN")
        .arg("tg:0:{8209}:ready:1")
        .query(&mut f.connection())
        .unwrap();
    assert_eq!(list, 1000);
}

#[tokio::test]
async fn the_roster_lists_live_pumps_only() {
    let f = fixture().await;
    let store = f.store.at(START);
    assert!(store.roster_join(0, "a", 1000).await.unwrap().is_new);
    assert!(!store.roster_join(0, "a", 1000).await.unwrap().is_new);
    let roster = store.roster_join(0, "b", 3000).await.unwrap();
    assert_eq!(
        (roster.instances, roster.next_end_in_ms),
        (vec!["a".into(), "b".into()], 1000)
    );
    let later = f.store.at(START + 1000);
    assert_eq!(
        later.roster_join(0, "b", 3000).await.unwrap().instances,
        ["b"]
    );
    assert!(later.roster_join(0, "a", 10).await.unwrap().is_new, "again");
    later.roster_leave(0, "a").await.unwrap();
    later.roster_leave(0, "b").await.unwrap();
    let roster = later.roster_join(0, "c", 500).await.unwrap();
    assert_eq!(
        (roster.instances, roster.next_end_in_ms),
        (vec!["c".into()], 500)
    );
    // A roster that is no longer used, because slots have moved, expires.
    let mut left = redis::cmd("PTTL");
    let left_ms: i64 = left
        .arg(DeploymentKeys::new(1).keys(0).roster())
        .query(&mut f.connection())
        .unwrap();
    assert!((1..=500).contains(&left_ms), "{left_ms}");
}

#[tokio::test]
async fn move_due_returns_when_the_next_job_is_due() {
    let f = fixture().await;
    assert_eq!(f.move_due(START).await.next_in, None);
    f.publish(START, delayed("a", 1234)).await;
    assert_eq!(
        f.move_due(START).await.next_in,
        Some(Duration::from_millis(1234))
    );
}
