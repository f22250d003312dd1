//! Expiry, and the clock of Redis.

use std::time::{Duration, Instant};

use tidegate_core::NewJob;
use tidegate_core::v1::consume::Outcome;
use tidegate_store::{AuditEvent, AuditOptions, CancelOutcome, LeaseOutcome, MoveDueOutcome};
use tidegate_testkit::consistency;

use crate::fixture::{START, StoreFixture, TOKEN, delayed, fixture, job};

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
        store.ack(&f.queue, id, None).await.unwrap().outcome,
        Outcome::Gone
    );
    f.expect(START + 100, &["stays"]).await;
    assert_eq!(f.counts().await, [0, 0, 1, 0]);
}

/// Found by a fault run of seed 6: the clock of Redis was 15 s ahead while a consumer acknowledged its job. Redis took
/// the job for expired, answered that it was gone, and kept it; once the clock was right it was delivered again.
#[tokio::test]
async fn a_job_that_was_acked_cancelled_or_replaced_while_the_clock_was_ahead_is_not_delivered_later()
 {
    let f = fixture().await;
    let acked = f.publish(START, expiring("acked", 100)).await;
    let cancelled = f.publish(START, expiring("cancelled", 100)).await;
    let replaced = f.publish(START, expiring("replaced", 100)).await;
    let ahead = f.store.at(START + 15_000);
    assert_eq!(
        ahead.ack(&f.queue, acked, None).await.unwrap().outcome,
        Outcome::Gone
    );
    assert_eq!(
        ahead
            .cancel(&f.queue, cancelled, tidegate_core::IfRunning::Refuse)
            .await
            .unwrap(),
        CancelOutcome::AlreadyGone
    );
    let new = [expiring("new", 20_000)];
    let published = ahead.publish(&f.queue, &new, Some(replaced)).await;
    assert_eq!(published.unwrap().len(), 1);
    f.expect(START + 1, &["new"]).await;
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
async fn the_sweep_deletes_expired_jobs_in_every_state_but_dead() {
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
    let far_hint_of_the_lease = format!("tg:0:{{8209}}:far:1:{}", (START + 180_000) / 65_536);
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
async fn expired_jobs_leave_no_hints_in_a_queue_without_consumers() {
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
async fn jobs_are_never_early_by_the_clock_of_redis() {
    let f = fixture().await;
    let load = f.store.load_slot(0, TOKEN, 100);
    let _ = load.await.unwrap();
    for _ in 0..20 {
        let before = Instant::now();
        f.store
            .publish(&f.queue, &[delayed("soon", 20)], None)
            .await
            .unwrap();
        // Calls without a pause: the first answer that has the job must not come before its due time.
        loop {
            let moved = f
                .store
                .move_due(0, TOKEN, 10, crate::fixture::LOSSES_MAX)
                .await
                .unwrap();
            let MoveDueOutcome::Done {
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

/// One call, as a pump makes it. Returns how many jobs it made ready, and whether more are due.
async fn move_once(f: &StoreFixture, now_ms: u64, limit: u64) -> (usize, bool) {
    match f
        .store
        .at(now_ms)
        .move_due(0, TOKEN, limit, crate::fixture::LOSSES_MAX)
        .await
        .unwrap()
    {
        MoveDueOutcome::Done {
            latenesses_ms,
            more,
            ..
        } => (latenesses_ms.len(), more),
        MoveDueOutcome::NotLeading => panic!("the test leads every bucket"),
    }
}

#[tokio::test]
async fn due_jobs_do_not_wait_when_the_clock_is_set_back() {
    const AHEAD_MS: u64 = 60_000;
    let f = fixture().await;
    for _ in 0..4 {
        let jobs = vec![delayed("x", 1000); 64];
        f.store
            .at(START)
            .publish(&f.queue, &jobs, None)
            .await
            .unwrap();
    }
    // The jobs have been due for a second when the clock is set back. One call was made while it was ahead.
    let now_ms = START + 2000;
    assert_eq!(move_once(&f, now_ms + AHEAD_MS, 64).await, (64, true));
    consistency::check(&f.redis.url()).await;
    for left in [2, 1, 0] {
        assert_eq!(move_once(&f, now_ms, 64).await, (64, left > 0));
    }
    assert_eq!(move_once(&f, now_ms, 64).await, (0, false));
    consistency::check(&f.redis.url()).await;
}

/// Jobs that were due by the clock that was ahead are no longer due, and are moved when they are due again.
#[tokio::test]
async fn a_backlog_waits_until_it_is_due_when_the_clock_is_set_back() {
    let f = fixture().await;
    let jobs = vec![delayed("x", 40_000); 64];
    f.store
        .at(START)
        .publish(&f.queue, &jobs, None)
        .await
        .unwrap();
    assert_eq!(move_once(&f, START + 60_000, 16).await, (16, true));
    let moved = f.move_due(START + 1000).await;
    assert_eq!(
        (moved.ready, moved.next_in),
        (0, Some(Duration::from_millis(39_000)))
    );
    assert_eq!(move_once(&f, START + 39_999, 64).await, (0, false));
    assert_eq!(move_once(&f, START + 40_000, 64).await, (48, false));
    consistency::check(&f.redis.url()).await;
}

/// Pumps with memberships of different lengths; one dies after the clock was set back, one before.
#[tokio::test]
async fn a_dead_pump_leaves_the_roster_in_time_when_the_clock_is_set_back() {
    const BACK_MS: u64 = 60_000;
    let f = fixture().await;
    let join = async |now_ms: u64, pump: &str, ttl_ms: u64| {
        let roster = f
            .store
            .at(now_ms)
            .roster_join(0, pump, ttl_ms)
            .await
            .unwrap();
        (roster.instances, roster.next_end_in_ms, roster.is_new)
    };
    let listed =
        |pumps: &[&str]| -> Vec<String> { pumps.iter().map(ToString::to_string).collect() };
    let ahead = START + BACK_MS;
    join(ahead, "dies-before", 3000).await;
    join(ahead, "slow", 10_000).await;
    join(ahead, "dies-after", 3000).await;
    join(ahead + 1000, "lives", 3000).await;
    // Set back: each membership keeps its remaining time, and none is prolonged by the difference.
    let roster = join(START + 1000, "dies-after", 3000).await;
    let all = listed(&["dies-after", "dies-before", "lives", "slow"]);
    assert_eq!(roster, (all, 2000, false));
    let roster = join(START + 3000, "lives", 3000).await;
    let left = listed(&["dies-after", "lives", "slow"]);
    assert_eq!(roster, (left, 1000, false), "dies-before has left");
    let roster = join(START + 4000, "lives", 3000).await;
    assert_eq!(roster.0, listed(&["lives", "slow"]), "dies-after has left");
    assert!(
        join(START + 9999, "lives", 3000).await.2,
        "its membership ended like the others"
    );
    let roster = join(START + 10_000, "lives", 3000).await;
    assert_eq!(roster, (listed(&["lives"]), 3000, false), "slow has left");
}

/// The lock of a pump that died after the clock was set back can be taken when its membership ends.
#[tokio::test]
async fn the_locks_of_a_dead_pump_are_free_in_time_when_the_clock_is_set_back() {
    let f = fixture().await;
    let ahead = f.store.at(START + 60_000);
    ahead.roster_join(0, TOKEN, 3000).await.unwrap();
    let take = async |now_ms: u64| {
        let store = f.store.at(now_ms);
        let roster = store.roster_join(0, "other", 3000).await.unwrap();
        let taken = store.lease_acquire(0, "other", &roster.instances).await;
        taken.unwrap()
    };
    assert_eq!(take(START).await, LeaseOutcome::NotOurs);
    assert_eq!(take(START + 2999).await, LeaseOutcome::NotOurs);
    assert_eq!(take(START + 3000).await, LeaseOutcome::Ours);
}

#[tokio::test]
async fn an_audit_has_no_findings_when_the_clock_is_set_back() {
    const BACK_MS: u64 = 60_000;
    let f = fixture().await;
    f.publish(START, expiring("gone", 1)).await;
    f.publish(START, expiring("kept", 100)).await;
    assert_eq!(f.sweep(START + 1).await, 1);
    f.store.roster_join(0, TOKEN, 3_600_000).await.unwrap();
    let options = AuditOptions {
        buckets: vec![],
        repair: false,
        pause: Duration::ZERO,
    };
    for now_ms in [START, START + 1 - BACK_MS] {
        let mut found = Vec::new();
        let mut note = |event| {
            if let AuditEvent::Found(finding) = event {
                found.push(finding);
            }
        };
        let store = f.store.at(now_ms);
        store.audit(&options, &mut note).await.unwrap();
        assert_eq!(found, []);
    }
}
