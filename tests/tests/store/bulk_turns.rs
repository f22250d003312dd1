//! Calls that change many jobs take turns, so that other calls are not late.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate_core::QueueKey;
use tidegate_store::PUBLISH_JOBS_MAX;
use tidegate_testkit::print_figure;
use tokio::time::sleep;

use crate::fixture::{START, fixture, job};

/// As many purges as a queue may have lanes.
const PURGES: usize = 64;
const JOBS: usize = 30 * PUBLISH_JOBS_MAX;
/// Without turns a call waits for one of each other purge: 64 of a millisecond or more.
const MEDIAN_MAX: Duration = Duration::from_millis(50);

#[tokio::test]
async fn purges_leave_others_their_turns() {
    let f = fixture().await;
    let store = f.store.at(START);
    let queue = |number| QueueKey::try_from(format!("shop/purged-{number}").as_str()).unwrap();
    let queues: Vec<QueueKey> = (0..PURGES).map(queue).collect();
    let jobs = vec![job("x"); PUBLISH_JOBS_MAX];
    for queue in &queues {
        for _ in 0..30 {
            store.publish(queue, &jobs, None).await.unwrap();
        }
    }
    let purges = join_all(queues.iter().map(|queue| store.purge_ready(queue)));
    let mut latencies = Vec::new();
    let others = async {
        loop {
            let sent_at = Instant::now();
            store.publish(&f.queue, &[job("y")], None).await.unwrap();
            latencies.push(sent_at.elapsed());
            sleep(Duration::from_millis(5)).await;
        }
    };
    let began_at = Instant::now();
    let purged = tokio::select! {
        purged = purges => purged,
        () = others => unreachable!("it has no end"),
    };
    let took = began_at.elapsed();
    let purged: u64 = purged.into_iter().map(Result::unwrap).sum();
    assert_eq!(purged, (PURGES * JOBS) as u64);
    latencies.sort_unstable();
    let (median, p99) = (
        latencies[latencies.len() / 2],
        latencies[latencies.len() * 99 / 100],
    );
    print_figure(&format!(
        "{PURGES} purges of {JOBS} jobs at the same time take {took:.1?}; {} publishes beside them: median {median:.1?}, p99 {p99:.1?}",
        latencies.len()
    ));
    assert!(median < MEDIAN_MAX, "{median:?}");
}
