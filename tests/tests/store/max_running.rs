//! The limit on the number of leased jobs, in the scripts: how many a reserve takes, and who is rung when leases end.

use tidegate_core::{IfExists, IfRunning, Job, NativeOptions, NewJob, RetryPolicy};
use tidegate_store::{AckRequest, AfterFailure, Claim, FailRequest, LeasedJob, ReserveOptions};
use tidegate_testkit::consistency;

use crate::audit::audit;
use crate::fixture::{START, StoreFixture, delayed, fixture, job};
use crate::waiting_process::WaitingProcess;

/// Longer than a doorbell may take before it counts as lost.
const LOST_MS: u64 = 100;

/// Takes up to `count` jobs as a process whose consumers wait.
async fn take(
    f: &StoreFixture,
    process: &WaitingProcess,
    now_ms: u64,
    (count, max_running): (u16, u64),
) -> (Vec<Job>, bool) {
    let options = ReserveOptions {
        registers: true,
        max_running: Some(max_running),
        group_max_running: None,
    };
    let claims = [Claim::new(count, 1000)];
    let store = process.store.at(now_ms);
    let mut reserved = store
        .reserve_with(&f.queue, &claims, options)
        .await
        .unwrap();
    (reserved.jobs.remove(0), reserved.is_registered)
}

/// Takes up to `count` jobs for consumers that do not wait.
async fn take_now(f: &StoreFixture, now_ms: u64, count: u16, max_running: Option<u64>) -> Vec<Job> {
    let options = ReserveOptions {
        registers: false,
        max_running,
        group_max_running: None,
    };
    let claims = [Claim::new(count, 1000)];
    let store = f.store.at(now_ms);
    let mut reserved = store
        .reserve_with(&f.queue, &claims, options)
        .await
        .unwrap();
    reserved.jobs.remove(0)
}

async fn ack(f: &StoreFixture, now_ms: u64, jobs: &[&Job]) {
    let requests = jobs.iter().map(|job| AckRequest {
        attempt: Some(job.attempt),
        ..job.id.into()
    });
    let requests: Vec<_> = requests.collect();
    f.store
        .at(now_ms)
        .ack_all(&f.queue, &requests, 0)
        .await
        .unwrap();
}

fn at_limit(f: &StoreFixture) -> Option<String> {
    let mut read = redis::cmd("HGET");
    read.arg("tg:0:{8209}:q:1").arg("at_limit");
    read.query(&mut f.connection()).unwrap()
}

#[tokio::test]
async fn no_more_jobs_than_the_limit_are_leased() {
    let f = fixture().await;
    for _ in 0..10 {
        f.publish(START, job("x")).await;
    }
    let first = take_now(&f, START, 5, Some(3)).await;
    assert_eq!((first.len(), at_limit(&f).as_deref()), (3, Some("3")));
    assert!(take_now(&f, START, 1, Some(3)).await.is_empty());
    ack(&f, START, &[&first[0]]).await;
    assert_eq!(take_now(&f, START, 5, Some(3)).await.len(), 1);
    // A lower limit revokes nothing; a higher one, and none, are in effect at once.
    assert!(take_now(&f, START, 5, Some(1)).await.is_empty());
    assert_eq!(f.counts().await, [0, 6, 3, 0]);
    assert_eq!(take_now(&f, START, 5, Some(4)).await.len(), 1);
    assert_eq!(take_now(&f, START, 2, None).await.len(), 2);
    assert_eq!(take_now(&f, START, 5, Some(9)).await.len(), 3);
    assert_eq!((f.counts().await, at_limit(&f)), ([0, 0, 9, 0], None));
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn the_claims_of_several_consumers_share_what_the_limit_leaves() {
    let f = fixture().await;
    for _ in 0..10 {
        f.publish(START, job("x")).await;
    }
    let claims = [
        Claim::new(2, 1000),
        Claim::new(2, 1000),
        Claim::new(2, 1000),
    ];
    let options = ReserveOptions {
        registers: false,
        max_running: Some(3),
        group_max_running: None,
    };
    let store = f.store.at(START);
    let reserved = store
        .reserve_with(&f.queue, &claims, options)
        .await
        .unwrap();
    let counts: Vec<usize> = reserved.jobs.iter().map(Vec::len).collect();
    assert_eq!(counts, [2, 1, 0]);
}

/// A way by which the lease of a job ends.
#[derive(Debug, Clone, Copy)]
enum LeaseEnding {
    Ack,
    AckAndRetain,
    AckByAnyDelivery,
    Retry,
    Death,
    Release,
    DelayedRelease,
    Revocation,
    Expiry,
    LastExpiry,
    ExpiryOfTheJob,
    Replacement,
    Rerun,
    Audit,
}

const ENDS: [LeaseEnding; 14] = [
    LeaseEnding::Ack,
    LeaseEnding::AckAndRetain,
    LeaseEnding::AckByAnyDelivery,
    LeaseEnding::Retry,
    LeaseEnding::Death,
    LeaseEnding::Release,
    LeaseEnding::DelayedRelease,
    LeaseEnding::Revocation,
    LeaseEnding::Expiry,
    LeaseEnding::LastExpiry,
    LeaseEnding::ExpiryOfTheJob,
    LeaseEnding::Replacement,
    LeaseEnding::Rerun,
    LeaseEnding::Audit,
];

impl LeaseEnding {
    fn first_job(self) -> NewJob {
        let native = NewJob {
            tries: 0,
            native: Some(Box::new(NativeOptions::default())),
            ..job("first")
        };
        match self {
            Self::LastExpiry | Self::AckByAnyDelivery | Self::Replacement => job("first"),
            Self::ExpiryOfTheJob => NewJob {
                ttl_ms: 500,
                ..job("first")
            },
            _ => native,
        }
    }

    /// Ends the lease of the first job. Returns the time.
    async fn happens(self, f: &StoreFixture, held: &Job) -> u64 {
        let store = f.store.at(START);
        let leased = LeasedJob {
            id: held.id,
            attempt: held.attempt,
        };
        let acked = |attempt| AckRequest {
            attempt,
            ..held.id.into()
        };
        match self {
            Self::Ack => ack(f, START, &[held]).await,
            Self::AckAndRetain => {
                let acked = [acked(Some(held.attempt))];
                store.ack_all(&f.queue, &acked, 60_000).await.unwrap();
            }
            Self::AckByAnyDelivery => {
                store.ack_all(&f.queue, &[acked(None)], 0).await.unwrap();
            }
            Self::Retry => fail(f, leased, AfterFailure::RetryInMs(5000)).await,
            Self::Death => fail(f, leased, AfterFailure::Bury).await,
            Self::Release => drop(store.release_all(&f.queue, &[leased], 0).await.unwrap()),
            Self::DelayedRelease => {
                drop(store.release_all(&f.queue, &[leased], 5000).await.unwrap());
            }
            Self::Revocation => {
                let cancelled = store.cancel(&f.queue, held.id, IfRunning::Revoke).await;
                let _ = cancelled.unwrap();
            }
            Self::Expiry | Self::LastExpiry => {
                f.move_due(START + 1001).await;
                return START + 1001;
            }
            Self::ExpiryOfTheJob => {
                f.sweep(START + 5000).await;
                return START + 5000;
            }
            Self::Replacement => {
                let later = [delayed("later", 60_000)];
                store
                    .publish(&f.queue, &later, Some(held.id))
                    .await
                    .unwrap();
            }
            Self::Rerun => {
                let next = f.keyed("a", IfExists::Replace, "next", 60_000);
                f.publish_keyed(START, next).await;
                ack(f, START, &[held]).await;
            }
            Self::Audit => {
                let mut damage = redis::cmd("HINCRBY");
                let damage = damage.arg("tg:0:{8209}:q:1").arg("leased").arg(1);
                damage.exec(&mut f.connection()).unwrap();
                ack(f, START, &[held]).await;
                assert_eq!(f.counts().await, [0, 1, 1, 0]);
                audit(f, true).await;
            }
        }
        START
    }
}

async fn fail(f: &StoreFixture, leased: LeasedJob, then: AfterFailure) {
    let failed = [FailRequest {
        job: leased,
        then,
        error: "error".to_owned(),
    }];
    let store = f.store.at(START);
    let policy = RetryPolicy::default();
    store.fail_all(&f.queue, &failed, &policy).await.unwrap();
}

#[tokio::test]
async fn every_end_of_a_lease_rings_a_process_whose_consumers_wait() {
    for end in ENDS {
        println!("{end:?}");
        let f = fixture().await;
        match end {
            LeaseEnding::Rerun => drop(
                f.publish_keyed(START, f.keyed("a", IfExists::Keep, "x", 0))
                    .await,
            ),
            _ => drop(f.publish(START, end.first_job()).await),
        }
        f.publish(START, job("second")).await;
        let first = take_now(&f, START, 1, Some(1)).await;
        let mut waiting = WaitingProcess::start(&f).await;
        assert_eq!(take(&f, &waiting, START, (1, 1)).await, (vec![], true));
        assert_eq!(at_limit(&f).as_deref(), Some("1"));
        let now_ms = end.happens(&f, &first[0]).await;
        waiting.rang_for(&f.queue).await;
        assert_eq!(take(&f, &waiting, now_ms, (1, 1)).await.0.len(), 1);
        assert_eq!(f.counts().await[2], 1, "{end:?}");
    }
}

/// Two processes that wait for a queue with as many leased jobs as it may have, and so many ready ones.
async fn held_queue(f: &StoreFixture, running: u16, ready: u16) -> (Vec<Job>, [WaitingProcess; 2]) {
    for _ in 0..running + ready {
        // One that is lost is ready again.
        let job = NewJob {
            tries: 2,
            ..job("x")
        };
        f.publish(START, job).await;
    }
    let limit = u64::from(running);
    let leased = take_now(f, START, running, Some(limit)).await;
    assert_eq!(leased.len(), usize::from(running));
    let processes = [
        WaitingProcess::start(f).await,
        WaitingProcess::start(f).await,
    ];
    for process in &processes {
        assert_eq!(take(f, process, START, (1, limit)).await, (vec![], true));
    }
    (leased, processes)
}

#[tokio::test]
async fn places_that_become_free_together_ring_as_many_processes_as_take_them() {
    let f = fixture().await;
    let (leased, [mut first, mut second]) = held_queue(&f, 2, 3).await;
    ack(&f, START, &[&leased[0], &leased[1]]).await;
    first.rang_for(&f.queue).await;
    assert!(second.is_quiet().await);
    // It leaves a job that may be leased.
    let (jobs, is_registered) = take(&f, &first, START, (1, 2)).await;
    assert_eq!((jobs.len(), is_registered), (1, false));
    second.rang_for(&f.queue).await;
    let (jobs, is_registered) = take(&f, &second, START, (1, 2)).await;
    assert_eq!((jobs.len(), is_registered), (1, true));
    assert!(first.is_quiet().await, "the limit is reached again");
    assert_eq!(f.counts().await, [0, 1, 2, 0]);
}

#[tokio::test]
async fn a_process_that_was_rung_and_killed_is_replaced_at_the_next_end_of_a_lease() {
    let f = fixture().await;
    let (leased, [mut first, mut second]) = held_queue(&f, 3, 3).await;
    ack(&f, START, &[&leased[0]]).await;
    first.rang_for(&f.queue).await;
    // It may still follow its doorbell, and then takes both places or rings another process.
    ack(&f, START + LOST_MS - 1, &[&leased[1]]).await;
    assert!(second.is_quiet().await);
    ack(&f, START + LOST_MS, &[&leased[2]]).await;
    second.rang_for(&f.queue).await;
}

#[tokio::test]
async fn a_process_that_was_rung_by_a_reserve_and_killed_is_replaced_too() {
    let f = fixture().await;
    let (leased, [mut first, mut second]) = held_queue(&f, 3, 4).await;
    let mut third = WaitingProcess::start(&f).await;
    assert_eq!(take(&f, &third, START, (1, 3)).await, (vec![], true));
    ack(&f, START, &[&leased[0], &leased[1]]).await;
    first.rang_for(&f.queue).await;
    let (taken, _) = take(&f, &first, START, (1, 3)).await;
    assert_eq!(taken.len(), 1);
    second.rang_for(&f.queue).await;
    // It does not follow its doorbell.
    ack(&f, START + LOST_MS - 1, &[&leased[2]]).await;
    assert!(third.is_quiet().await);
    ack(&f, START + LOST_MS, &[&taken[0]]).await;
    third.rang_for(&f.queue).await;
}

/// A lease that ends and makes its job ready behind older ones rings one process, not two.
#[tokio::test]
async fn a_job_that_is_ready_again_rings_one_process() {
    let f = fixture().await;
    let (_, [mut first, mut second]) = held_queue(&f, 1, 3).await;
    // Its lease ends.
    f.move_due(START + 1001).await;
    first.rang_for(&f.queue).await;
    assert!(second.is_quiet().await);
}

/// The count of leased jobs is too high until an audit has corrected it.
#[tokio::test]
async fn an_audit_frees_the_place_of_a_leased_job_whose_record_is_lost() {
    let f = fixture().await;
    for _ in 0..2 {
        f.publish(START, job("x")).await;
    }
    let leased = take_now(&f, START, 1, Some(1)).await;
    let field = format!("{:02}", leased[0].id.number() % 100);
    let mut damage = redis::cmd("HDEL");
    let damage = damage.arg("tg:0:{8209}:c:10000").arg(field);
    let removed: u32 = damage.query(&mut f.connection()).unwrap();
    assert_eq!(removed, 1);
    f.move_due(START + 1001).await;
    assert!(take_now(&f, START + 1001, 1, Some(1)).await.is_empty());
    audit(&f, true).await;
    assert_eq!(take_now(&f, START + 1001, 1, Some(1)).await.len(), 1);
}

#[tokio::test]
async fn jobs_that_come_to_a_held_queue_ring_no_process() {
    let f = fixture().await;
    let (leased, [mut first, mut second]) = held_queue(&f, 2, 1).await;
    for number in 0..10 {
        f.publish(START + 1000 * number, job("x")).await;
    }
    assert!(first.is_quiet().await && second.is_quiet().await);
    // A lost doorbell is found by the next job.
    ack(&f, START + 10_000, &[&leased[0]]).await;
    first.rang_for(&f.queue).await;
    f.publish(START + 10_000 + LOST_MS - 1, job("x")).await;
    assert!(second.is_quiet().await);
    f.publish(START + 10_000 + LOST_MS, job("x")).await;
    second.rang_for(&f.queue).await;
}

#[tokio::test]
async fn damage_makes_the_limit_inexact_and_fails_no_call() {
    let f = fixture().await;
    for _ in 0..9 {
        f.publish(START, job("x")).await;
    }
    for (count, taken) in [
        ("x", 2),
        ("-5", 2),
        ("1.5", 2),
        ("inf", 2),
        ("1e9", 2),
        ("99999999999999999999", 2),
        ("1", 1),
        ("99999", 0),
    ] {
        for at_limit in [
            "",
            "x",
            "5 x",
            "-1 -1",
            "99999999999999999999 1",
            "1 99999999999999999999",
        ] {
            let mut damage = redis::cmd("HSET");
            let damage = damage.arg("tg:0:{8209}:q:1").arg("leased").arg(count);
            damage
                .arg("at_limit")
                .arg(at_limit)
                .exec(&mut f.connection())
                .unwrap();
            let jobs = take_now(&f, START, 2, Some(2)).await;
            assert_eq!(jobs.len(), taken, "{count} {at_limit}");
            let mut again = redis::cmd("HSET");
            let again = again.arg("tg:0:{8209}:q:1").arg("at_limit").arg(at_limit);
            again.exec(&mut f.connection()).unwrap();
            let leases = jobs.iter().rev().map(|job| LeasedJob {
                id: job.id,
                attempt: job.attempt,
            });
            let leases: Vec<_> = leases.collect();
            if !leases.is_empty() {
                let store = f.store.at(START);
                drop(store.release_all(&f.queue, &leases, 0).await.unwrap());
            }
        }
    }
}
