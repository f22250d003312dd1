//! The auditor and a large bucket: every call is short, and all damage is found.

use tidegate_core::NewJob;
use tidegate_store::PUBLISH_JOBS_MAX;
use tidegate_testkit::{consistency, print_figure};

use crate::audit::audit;
use crate::fixture::{START, StoreFixture, TOKEN, delayed, fixture, job};

const JOBS: usize = 200_000;
/// More than ten times the duration of a call.
const CALL_US_MAX: u64 = 20_000;

/// A third each: ready, due soon, due much later.
async fn publish(fixture: &StoreFixture) {
    let jobs: Vec<NewJob> = (0..JOBS as u64)
        .map(|i| match i % 3 {
            0 => job("ready"),
            1 => delayed("near", 1000 + i % 1000),
            _ => delayed("far", 600_000 + i),
        })
        .collect();
    let store = fixture.store.at(START);
    for jobs in jobs.chunks(PUBLISH_JOBS_MAX) {
        store.publish(&fixture.queue, jobs, None).await.unwrap();
    }
}

#[tokio::test]
async fn a_bucket_of_200_000_jobs_is_audited_in_short_calls() {
    let fixture = fixture().await;
    fixture
        .store
        .roster_join(0, TOKEN, 3_600_000)
        .await
        .unwrap();
    publish(&fixture).await;
    let mut connection = fixture.connection();
    let mut run = |command: &[&str]| -> redis::Value {
        let mut sent = redis::cmd(command[0]);
        sent.arg(&command[1..]);
        sent.query(&mut connection).unwrap()
    };
    let one = redis::Value::Int(1);
    assert_eq!(run(&["LREM", "tg:0:{8209}:ready:1", "1", "1100000"]), one);
    assert_eq!(run(&["ZREM", "tg:0:{8209}:near:1", "1100001"]), one);
    run(&["HINCRBY", "tg:0:{8209}:q:1", "delayed", "7"]);
    run(&["CONFIG", "SET", "slowlog-max-len", "1000"]);
    run(&[
        "CONFIG",
        "SET",
        "slowlog-log-slower-than",
        &CALL_US_MAX.to_string(),
    ]);
    run(&["SLOWLOG", "RESET"]);
    run(&["CONFIG", "RESETSTAT"]);

    let begin = std::time::Instant::now();
    let (summary, found) = audit(&fixture, true).await;
    print_figure(&format!("{JOBS} jobs audited in {:?}", begin.elapsed()));
    let slow = run(&["SLOWLOG", "GET"]);
    assert_eq!(
        slow,
        redis::Value::Array(vec![]),
        "calls above {CALL_US_MAX} µs"
    );
    assert_eq!(
        (summary.jobs, summary.queues_not_compared),
        (JOBS as u64, 0)
    );
    let mut names: Vec<&str> = found.iter().map(|finding| finding.defect.name()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["no_timer", "not_listed", "wrong_counts"],
        "{found:?}"
    );
    assert_eq!(summary.repaired, 3);
    let (_, found) = audit(&fixture, false).await;
    assert_eq!(found, []);
    assert_eq!(consistency::defects(&fixture.redis.url()).await, [""; 0]);
}
