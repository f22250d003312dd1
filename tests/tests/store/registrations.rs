//! Which of the processes that wait for a queue is rung.

use std::time::Duration;

use tidegate_core::QueueKey;
use tidegate_store::{Claim, ReserveOptions};
use tidegate_testkit::eventually;

use crate::fixture::{LIMIT, START, StoreFixture, fixture, job};
use crate::waiting_process::WaitingProcess;

/// The length of a period of registrations.
const PERIOD_MS: u64 = 3_600_000;

/// Consumers wait.
const WAITS: ReserveOptions = ReserveOptions {
    registers: true,
    max_running: None,
    group_max_running: None,
};

async fn processes(f: &StoreFixture, count: usize) -> Vec<WaitingProcess> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(WaitingProcess::registered(f, START, &f.queue).await);
    }
    all
}

/// Takes jobs as a process does for consumers that wait. Returns how many, and whether it is registered.
async fn take(f: &StoreFixture, process: &WaitingProcess, claims: usize) -> (usize, bool) {
    let claims = vec![Claim::new(1, 60_000); claims];
    let store = process.store.at(START);
    let reserved = store.reserve_with(&f.queue, &claims, WAITS).await.unwrap();
    let jobs = reserved.jobs.iter().map(Vec::len).sum();
    (jobs, reserved.is_registered)
}

#[tokio::test]
async fn processes_are_rung_in_turn_one_for_each_job() {
    let f = fixture().await;
    let mut all = processes(&f, 3).await;
    for round in 0..9 {
        let rung = round % 3;
        f.publish(START, job("a")).await;
        all[rung].rang_for(&f.queue).await;
        assert_eq!(take(&f, &all[rung], 2).await, (1, true));
    }
    for process in &mut all {
        assert!(process.is_quiet().await);
    }
}

#[tokio::test]
async fn a_process_that_fills_its_claims_rings_the_next_if_jobs_are_left() {
    let f = fixture().await;
    let mut all = processes(&f, 3).await;
    for _ in 0..3 {
        f.publish(START, job("a")).await;
    }
    all[0].rang_for(&f.queue).await;
    assert_eq!(take(&f, &all[0], 1).await, (1, false));
    all[1].rang_for(&f.queue).await;
    assert_eq!(take(&f, &all[1], 2).await, (2, true));
    assert!(all[2].is_quiet().await, "no job is left");
    f.publish(START, job("a")).await;
    all[2].rang_for(&f.queue).await;
}

#[tokio::test]
async fn a_call_that_takes_the_last_job_registers_the_process_again() {
    let f = fixture().await;
    let mut all = processes(&f, 1).await;
    for _ in 0..3 {
        f.publish(START, job("a")).await;
        all[0].rang_for(&f.queue).await;
        assert_eq!(take(&f, &all[0], 1).await, (1, true));
    }
}

#[tokio::test]
async fn a_process_that_has_ended_is_passed_over() {
    let f = fixture().await;
    let mut all = processes(&f, 3).await;
    let mut last = all.pop().unwrap();
    drop(all);
    eventually("the subscriptions have ended", LIMIT, async || {
        let channels: Vec<String> = redis::cmd("PUBSUB")
            .arg("SHARDCHANNELS")
            .query(&mut f.connection())
            .unwrap();
        let of_processes = channels.iter().filter(|name| name.contains("bell:"));
        let count = of_processes.count();
        if count == 1 {
            Ok(())
        } else {
            Err(channels.join(" "))
        }
    })
    .await;
    f.publish(START, job("a")).await;
    last.rang_for(&f.queue).await;
}

#[tokio::test]
async fn a_process_that_withdraws_is_not_rung_and_passes_a_doorbell_on() {
    let f = fixture().await;
    let mut all = processes(&f, 3).await;
    let withdraw = async |process: &WaitingProcess| {
        let store = process.store.at(START);
        let withdrawing = store.withdraw(0, [&f.queue].into_iter());
        withdrawing.await.unwrap();
    };
    withdraw(&all[0]).await;
    f.publish(START, job("a")).await;
    all[1].rang_for(&f.queue).await;
    withdraw(&all[1]).await;
    all[2].rang_for(&f.queue).await;
    withdraw(&all[2]).await;
    for process in &mut all {
        assert!(process.is_quiet().await);
    }
}

#[tokio::test]
async fn registrations_last_for_two_periods_and_polls_renew_them() {
    let f = fixture().await;
    let mut all = processes(&f, 2).await;
    all[1].register(START + PERIOD_MS, &f.queue).await;
    f.publish(START + PERIOD_MS, job("a")).await;
    // That of this period comes first.
    all[1].rang_for(&f.queue).await;
    f.expect(START + PERIOD_MS, &["a"]).await;
    f.publish(START + PERIOD_MS, job("b")).await;
    all[0].rang_for(&f.queue).await;
    f.expect(START + PERIOD_MS, &["b"]).await;

    all[0].register(START + PERIOD_MS, &f.queue).await;
    f.publish(START + 3 * PERIOD_MS, job("c")).await;
    assert!(all[0].is_quiet().await, "its registration is too old");
    let mut connection = f.connection();
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg("*waiting:*")
        .query(&mut connection)
        .unwrap();
    assert!(!keys.is_empty());
    for key in keys {
        let left: u64 = redis::cmd("PTTL").arg(&key).query(&mut connection).unwrap();
        let ends_in = Duration::from_millis(left);
        assert!(ends_in <= Duration::from_millis(2 * PERIOD_MS), "{key}");
    }
}

#[tokio::test]
async fn a_process_may_wait_for_a_queue_that_does_not_exist_yet() {
    let f = fixture().await;
    let mut process = WaitingProcess::start(&f).await;
    let queue = QueueKey::try_from("shop/new").unwrap();
    let store = process.store.at(START);
    let claims = [Claim::new(1, 1000)];
    let reserved = store.reserve_with(&queue, &claims, WAITS).await.unwrap();
    assert!(reserved.is_registered);
    f.store
        .at(START)
        .publish(&queue, &[job("a")], None)
        .await
        .unwrap();
    process.rang_for(&queue).await;
}
