//! Stale hints take little memory: once most hints of a list are stale, the sweep drops them in bounded steps.

use tidegate_core::{JobId, NewJob};
use tidegate_store::{SWEEP_CHUNKS_MAX, SweepOutcome};
use tidegate_testkit::consistency;

use crate::fixture::{START, StoreFixture, TOKEN, delayed, fixture, job};

/// Stale hints stay while there are at most this many, or fewer than live ones.
const STALE_MAX: usize = 1000;
const DAY_MS: u64 = 86_400_000;

fn length(f: &StoreFixture, list: &str) -> usize {
    let mut length = redis::cmd("LLEN");
    length.arg(format!("tg:0:{{8209}}:{list}"));
    length.query(&mut f.connection()).unwrap()
}

fn far_hints(f: &StoreFixture) -> usize {
    let mut slots = redis::cmd("ZRANGE");
    slots.arg("tg:0:{8209}:slots").arg(0).arg(-1);
    let slots: Vec<String> = slots.query(&mut f.connection()).unwrap();
    slots
        .iter()
        .map(|slot| length(f, &format!("far:{slot}")))
        .sum()
}

async fn publish(f: &StoreFixture, now_ms: u64, jobs: &[NewJob]) -> Vec<JobId> {
    let mut ids = Vec::new();
    for jobs in jobs.chunks(60) {
        let store = f.store.at(now_ms);
        ids.extend(store.publish(&f.queue, jobs, None).await.unwrap());
    }
    ids
}

/// Calls the sweep until it has nothing to do; returns the number of calls.
async fn sweep(f: &StoreFixture, now_ms: u64) -> usize {
    for call in 1.. {
        let store = f.store.at(now_ms);
        match store.sweep(0, TOKEN, SWEEP_CHUNKS_MAX).await.unwrap() {
            SweepOutcome::Done { more: true, .. } => {}
            SweepOutcome::Done { .. } => return call,
            SweepOutcome::NotLeading => panic!("the test leads every bucket"),
        }
    }
    unreachable!("the calls do not end")
}

/// One job that is never taken is ahead of jobs that expire: their hints are not at the head of the list.
#[tokio::test]
async fn hints_of_expired_jobs_behind_a_live_one_are_dropped() {
    const ROUNDS: u64 = 5;
    const JOBS: usize = 1200;
    let f = fixture().await;
    f.move_due(START).await;
    publish(&f, START, &[job("first")]).await;
    let expiring = NewJob {
        ttl_ms: 1000,
        ..job("x")
    };
    let mut calls = 0;
    for round in 0..ROUNDS {
        let now_ms = START + round * 10_000;
        publish(&f, now_ms, &vec![expiring.clone(); JOBS]).await;
        calls += sweep(&f, now_ms + 5000).await;
        assert!(length(&f, "ready:1") <= 2 * STALE_MAX + 1, "round {round}");
    }
    assert!(calls > ROUNDS as usize, "{calls} calls: in bounded steps");
    publish(&f, START + DAY_MS, &[job("last")]).await;
    f.expect(START + DAY_MS, &["first", "last"]).await;
    consistency::check(&f.redis.url()).await;
}

/// Live jobs among stale hints keep their order.
#[tokio::test]
async fn live_jobs_between_stale_hints_keep_their_order() {
    const JOBS: usize = 3000;
    let f = fixture().await;
    f.move_due(START).await;
    let jobs: Vec<NewJob> = (0..JOBS)
        .map(|number| match number % 100 {
            7 => job(&number.to_string()),
            _ => NewJob {
                ttl_ms: 1000,
                ..job("x")
            },
        })
        .collect();
    publish(&f, START, &[job("0")]).await;
    publish(&f, START, &jobs).await;
    sweep(&f, START + 5000).await;
    assert!(
        length(&f, "ready:1") < STALE_MAX,
        "{}",
        length(&f, "ready:1")
    );
    let live = (0..JOBS).filter(|number| number % 100 == 7);
    let mut expected = vec!["0".to_owned()];
    expected.extend(live.map(|number| number.to_string()));
    assert_eq!(f.reserve(START + 5000, 100, 1000).await, expected);
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn hints_of_deleted_dead_jobs_behind_another_are_dropped() {
    const JOBS: usize = 2500;
    let f = fixture().await;
    f.move_due(START).await;
    let ids = publish(&f, START, &vec![job("x"); JOBS]).await;
    let mut taken = 0;
    while taken < JOBS {
        taken += f.reserve(START, 100, 1).await.len();
    }
    assert_eq!(f.move_due(START + 10).await.buried, JOBS as u64);
    for id in &ids[1..] {
        let _ = f
            .store
            .at(START + 10)
            .ack(&f.queue, *id, None)
            .await
            .unwrap();
    }
    assert_eq!(length(&f, "dead:1"), JOBS);
    sweep(&f, START + 10).await;
    assert_eq!(length(&f, "dead:1"), 1);
    assert_eq!(f.counts().await, [0, 0, 0, 1]);
    consistency::check(&f.redis.url()).await;
}

/// Jobs that are cancelled far ahead of their time, on all levels of slots.
#[tokio::test]
async fn far_hints_of_cancelled_jobs_are_dropped() {
    const JOBS: u64 = 1500;
    let f = fixture().await;
    f.move_due(START).await;
    let jobs: Vec<NewJob> = (1..=JOBS)
        .map(|number| delayed("x", number * number * 400_000))
        .collect();
    let ids = publish(&f, START, &jobs).await;
    assert_eq!(far_hints(&f), JOBS as usize);
    for (number, id) in ids.iter().enumerate() {
        if number % 20 > 0 {
            let _ = f
                .store
                .at(START)
                .cancel(&f.queue, *id, tidegate_core::IfRunning::Refuse)
                .await
                .unwrap();
        }
    }
    let calls = sweep(&f, START).await;
    assert!(calls > 3, "in bounded steps");
    let live = JOBS as usize / 20;
    assert!(far_hints(&f) <= live + STALE_MAX, "{}", far_hints(&f));
    assert_eq!(f.counts().await, [live as u64, 0, 0, 0]);
    consistency::check(&f.redis.url()).await;
    let last_ms = START + JOBS * JOBS * 400_000;
    assert_eq!(f.move_due(last_ms).await.ready, live);
}
