//! The table of policies.

mod max_jobs;
mod readers;

use tidegate_core::{Policy, QueueKey};
use tidegate_store::{Row, Table, TableRevision, TableSetOutcome};

use crate::fixture::{all_queues, fixture, fixture_on_cluster, job};

fn queue(number: usize) -> QueueKey {
    QueueKey::try_from(format!("shop/q{number}").as_str()).unwrap()
}

fn limited(max_jobs: u64) -> Policy {
    Policy {
        max_jobs: Some(max_jobs),
        ..Policy::default()
    }
}

fn row(policy: Policy, revision: TableRevision) -> Row<Policy> {
    Row {
        revision: Some(revision),
        value: Ok(policy),
    }
}

async fn set(policies: &Table<Policy>, queue: &QueueKey, policy: &Policy) -> TableRevision {
    match policies.set(queue, Some(policy), None).await.unwrap() {
        TableSetOutcome::Done(revision) => revision,
        TableSetOutcome::VersionMismatch(_) => panic!("no revision was expected"),
    }
}

#[tokio::test]
async fn a_policy_is_set_compared_and_removed() {
    for f in [fixture().await, fixture_on_cluster().await] {
        let policies = f.store.policies();
        assert_eq!(policies.get(&f.queue).await.unwrap(), None);
        let first = set(&policies, &f.queue, &limited(5)).await;
        let stored = policies.get(&f.queue).await.unwrap();
        assert_eq!(stored, Some(row(limited(5), first)));
        let none = TableRevision::default();
        for wrong in [
            none,
            "1.00000000".parse().unwrap(),
            "9.12345678".parse().unwrap(),
        ] {
            let refused = policies.set(&f.queue, Some(&limited(6)), Some(wrong)).await;
            assert_eq!(
                refused.unwrap(),
                TableSetOutcome::VersionMismatch(Some(first))
            );
        }
        assert_eq!(policies.get(&f.queue).await.unwrap(), stored);
        let second = policies
            .set(&f.queue, Some(&limited(6)), Some(first))
            .await
            .unwrap();
        let TableSetOutcome::Done(second) = second else {
            panic!("{second:?}");
        };
        assert!(second > first);
        // A policy that equals the defaults is removed; then only "no policy" is its revision.
        let removed = policies
            .set(&f.queue, Some(&Policy::default()), Some(second))
            .await;
        assert_eq!(removed.unwrap(), TableSetOutcome::Done(none));
        assert_eq!(policies.get(&f.queue).await.unwrap(), None);
        let refused = policies
            .set(&f.queue, Some(&limited(7)), Some(second))
            .await
            .unwrap();
        assert_eq!(refused, TableSetOutcome::VersionMismatch(Some(none)));
        let created = policies
            .set(&f.queue, Some(&limited(7)), Some(none))
            .await
            .unwrap();
        assert!(matches!(created, TableSetOutcome::Done(revision) if revision > second));
        // A policy creates no queue.
        assert!(all_queues(&f.store).await.is_empty());
    }
}

#[tokio::test]
async fn of_concurrent_changes_with_the_same_expected_revision_one_succeeds() {
    let f = fixture().await;
    let policies = f.store.policies();
    for _ in 0..20 {
        let before = policies.get(&f.queue).await.unwrap();
        let before = before.unwrap_or_default().revision;
        let attempts = (1..=8).map(|jobs| {
            let (policies, queue) = (policies.clone(), f.queue.clone());
            tokio::spawn(async move {
                let set = policies.set(&queue, Some(&limited(jobs)), before).await;
                (jobs, set.unwrap())
            })
        });
        let mut done = Vec::new();
        for attempt in attempts.collect::<Vec<_>>() {
            if let (jobs, TableSetOutcome::Done(revision)) = attempt.await.unwrap() {
                done.push((jobs, revision));
            }
        }
        let stored = policies.get(&f.queue).await.unwrap();
        let [(jobs, revision)] = done[..] else {
            panic!("{done:?}");
        };
        assert_eq!(stored, Some(row(limited(jobs), revision)));
    }
}

#[tokio::test]
async fn a_table_of_another_type_is_an_error_and_jobs_are_served() {
    let f = fixture().await;
    redis::cmd("SET")
        .arg("tg:policies")
        .arg("x")
        .exec(&mut f.connection())
        .unwrap();
    let policies = f.store.policies();
    assert!(policies.changes_since(None).await.is_err());
    assert!(policies.get(&f.queue).await.is_err());
    let set = policies.set(&f.queue, Some(&limited(1)), None).await;
    assert!(set.is_err());
    f.store.publish(&f.queue, &[job("a")], None).await.unwrap();
    assert_eq!(f.counts().await, [0, 1, 0, 0]);
}

#[tokio::test]
async fn an_invalid_policy_is_not_sent() {
    let f = fixture().await;
    let policies = f.store.policies();
    let set = policies.set(&f.queue, Some(&limited(0)), None).await;
    assert!(set.is_err());
    assert_eq!(policies.get(&f.queue).await.unwrap(), None);
}

#[tokio::test]
async fn a_queue_is_paused_at_maxmemory() {
    let f = fixture().await;
    redis::cmd("CONFIG")
        .arg("SET")
        .arg("maxmemory")
        .arg("1")
        .exec(&mut f.connection())
        .unwrap();
    assert!(f.store.publish(&f.queue, &[job("a")], None).await.is_err());
    let paused = Policy {
        paused: true,
        ..Policy::default()
    };
    let policies = f.store.policies();
    let revision = set(&policies, &f.queue, &paused).await;
    let stored = policies.get(&f.queue).await.unwrap();
    assert_eq!(stored, Some(row(paused, revision)));
}
