//! Counts are derived from records: a wrong count makes statistics wrong, and hides no job. Limits of a policy
//! are another matter: `max_running.rs`.

use std::time::Duration;

use tidegate_core::v1::consume::Outcome;
use tidegate_core::{JobState, NewJob, QueueKey};
use tidegate_store::{AuditEvent, AuditOptions};
use tidegate_testkit::consistency;

use crate::fixture::{START, StoreFixture, TOKEN, all_queues, delayed, fixture, job};
use crate::waiting_process::WaitingProcess;

const HOUR_MS: u64 = 3_600_000;

/// Sets a count of a queue, if the queue exists.
pub(crate) fn miscount(f: &StoreFixture, queue: &QueueKey, state: JobState, count: impl ToString) {
    let script = "local queue = redis.call('HGET', 'tg:0:{8209}:queues', ARGV[1])
                  if queue then redis.call('HSET', 'tg:0:{8209}:q:' .. queue, ARGV[2], ARGV[3]) end";
    let mut set = redis::cmd("EVAL");
    set.arg(script).arg(0).arg(queue.to_string());
    set.arg(state.as_str()).arg(count.to_string());
    set.exec(&mut f.connection()).unwrap();
}

fn hints(f: &StoreFixture, list: &str) -> usize {
    let mut length = redis::cmd("LLEN");
    length.arg(format!("tg:0:{{8209}}:{list}"));
    length.query(&mut f.connection()).unwrap()
}

#[tokio::test]
async fn a_count_that_is_too_low_loses_no_job() {
    let f = fixture().await;
    let first = f.publish(START, job("first")).await;
    f.publish(START, job("second")).await;
    miscount(&f, &f.queue, JobState::Ready, 1);
    let _ = f
        .store
        .at(START)
        .cancel(&f.queue, first, tidegate_core::IfRunning::Refuse)
        .await
        .unwrap();
    assert_eq!(f.counts().await, [0, 0, 0, 0]);
    assert_eq!(hints(&f, "ready:1"), 1, "the stale hint is dropped");
    f.expect(START, &["second"]).await;

    // The same for dead jobs.
    assert_eq!(f.move_due(START + 1000).await.buried, 1);
    f.publish(START, job("dies")).await;
    f.expect(START + 1000, &["dies"]).await;
    assert_eq!(f.move_due(START + 2000).await.buried, 1);
    miscount(&f, &f.queue, JobState::Dead, 1);
    let store = f.store.at(START + 2000);
    assert_eq!(store.respawn(&f.queue, 1, 0).await.unwrap(), 1);
    assert_eq!(f.counts().await[3], 0);
    assert_eq!(store.respawn(&f.queue, 10, 0).await.unwrap(), 1);
    f.expect(START + 2000, &["second", "dies"]).await;
}

#[tokio::test]
async fn verbs_do_not_rely_on_the_counts() {
    let f = fixture().await;
    let store = f.store.at(START);
    for body in ["a", "b", "c"] {
        f.publish(START, job(body)).await;
    }
    miscount(&f, &f.queue, JobState::Ready, 0);
    let listed = all_queues(&f.store.at(START + 70)).await;
    assert_eq!(listed[0].oldest_ready_ms, Some(70));
    assert_eq!(store.purge_ready(&f.queue).await.unwrap(), 3);
    for body in ["a", "b"] {
        f.publish(START, job(body)).await;
    }
    f.expect(START, &["a", "b"]).await;
    f.move_due(START + 1000).await;
    miscount(&f, &f.queue, JobState::Dead, 0);
    assert_eq!(store.purge_dead(&f.queue, 1).await.unwrap(), 1);
    assert_eq!(store.purge_dead(&f.queue, 5).await.unwrap(), 1);
}

/// A removed queue gets another number with its next publish, and none of its old jobs would be found.
#[tokio::test]
async fn a_queue_with_jobs_is_kept_if_its_counts_are_0() {
    for (kept, due_ms) in [
        (delayed("near", 500), START + 500),
        (delayed("far", HOUR_MS), START + HOUR_MS),
        (
            NewJob {
                tries: 2,
                ..job("leased near")
            },
            START + 1000,
        ),
        (
            NewJob {
                tries: 2,
                ..job("leased far")
            },
            START + HOUR_MS,
        ),
        (job("dead"), START + 1000),
    ] {
        let f = fixture().await;
        let body = String::from_utf8(kept.body.to_vec()).unwrap();
        f.publish(START, kept.clone()).await;
        if kept.delay_ms == 0 {
            let ttr_ms = if due_ms == START + HOUR_MS {
                HOUR_MS
            } else {
                1000
            };
            assert_eq!(f.reserve(START, 1, ttr_ms).await, [body.as_str()]);
        }
        if body == "dead" {
            assert_eq!(f.move_due(due_ms).await.buried, 1);
        }
        for state in JobState::ALL {
            miscount(&f, &f.queue, state, 0);
        }
        f.publish(START, job("purged")).await;
        let store = f.store.at(due_ms);
        assert_eq!(store.purge_ready(&f.queue).await.unwrap(), 1);
        f.publish(START, job("next")).await;
        f.move_due(due_ms).await;
        store.respawn(&f.queue, 1, 0).await.unwrap();
        f.expect(due_ms, &["next", &body]).await;
    }
}

/// The far hints of all queues are in common lists, and a call reads a bounded number of them.
#[tokio::test]
async fn an_empty_queue_is_removed_if_there_are_few_far_timers() {
    let f = fixture().await;
    let other = QueueKey::try_from("shop/other").unwrap();
    let jobs = vec![delayed("x", HOUR_MS); 50];
    let listed = async || all_queues(&f.store.at(START)).await.len();
    for expected in [1, 2] {
        for _ in 0..10 {
            f.store
                .at(START)
                .publish(&other, &jobs, None)
                .await
                .unwrap();
        }
        f.publish(START, job("purged")).await;
        assert_eq!(f.store.at(START).purge_ready(&f.queue).await.unwrap(), 1);
        assert_eq!(listed().await, expected);
        let jobs = vec![delayed("x", 2 * HOUR_MS); 51];
        for _ in 0..10 {
            f.store
                .at(START)
                .publish(&other, &jobs, None)
                .await
                .unwrap();
        }
    }
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn the_doorbell_rings_if_the_list_was_empty_or_the_count_was_0() {
    let f = fixture().await;
    let mut waiting = Vec::new();
    for _ in 0..9 {
        waiting.push(WaitingProcess::registered(&f, START, &f.queue).await);
    }
    let mut waiting = waiting.iter_mut();
    let mut next = || waiting.next().unwrap();
    // The list is empty and the count is too high.
    f.publish(START, job("a")).await;
    next().rang_for(&f.queue).await;
    f.expect(START, &["a"]).await;
    miscount(&f, &f.queue, JobState::Ready, 5);
    f.publish(START, job("b")).await;
    next().rang_for(&f.queue).await;
    // The count is 0 or less, and the list has hints that are, or seem, stale.
    let store = f.store.at(START);
    for count in [0, -4] {
        miscount(&f, &f.queue, JobState::Ready, count);
        f.publish(START, job("more")).await;
        next().rang_for(&f.queue).await;
    }
    miscount(&f, &f.queue, JobState::Leased, 7);
    let claims = [tidegate_store::Claim::new(1, 1000)];
    let reserved = store.reserve(&f.queue, &claims).await.unwrap();
    // Jobs are left.
    next().rang_for(&f.queue).await;
    miscount(&f, &f.queue, JobState::Ready, 0);
    let id = reserved.jobs[0][0].id;
    assert_eq!(
        store.release(&f.queue, id, 1).await.unwrap(),
        Outcome::Released
    );
    next().rang_for(&f.queue).await;
    f.publish(START, delayed("due", 10)).await;
    miscount(&f, &f.queue, JobState::Ready, 0);
    assert_eq!(f.move_due(START + 10).await.ready, 1);
    next().rang_for(&f.queue).await;
    f.move_due(START + 1000).await;
    miscount(&f, &f.queue, JobState::Ready, 0);
    assert_eq!(store.respawn(&f.queue, 1, 0).await.unwrap(), 1);
    next().rang_for(&f.queue).await;
    assert!(next().is_quiet().await, "nothing else has rung");
}

#[tokio::test]
async fn a_count_that_is_not_a_number_fails_no_call() {
    let f = fixture().await;
    f.publish(START, job("a")).await;
    for state in JobState::ALL {
        miscount(&f, &f.queue, state, "x");
    }
    assert_eq!(f.counts().await, [0, 0, 0, 0]);
    assert_eq!(all_queues(&f.store.at(START)).await.len(), 1);
    f.publish(START, job("b")).await;
    f.expect(START, &["a", "b"]).await;
    let options = AuditOptions {
        buckets: vec![],
        repair: true,
        pause: Duration::ZERO,
    };
    f.store.roster_join(0, TOKEN, HOUR_MS).await.unwrap();
    let mut ignore = |_: AuditEvent| {};
    let store = f.store.at(START);
    assert_eq!(
        store.audit(&options, &mut ignore).await.unwrap().repaired,
        1
    );
    consistency::check(&f.redis.url()).await;
}
