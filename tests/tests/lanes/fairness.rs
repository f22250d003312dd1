//! Lanes are served round-robin.

use std::collections::BTreeMap;

use bytes::Bytes;
use tidegate_core::NewJob;
use tidegate_testkit::{Stack, print_figure};

use crate::fixture::{bucket, key, store};

const LANES: u16 = 8;
const IN_THE_FULL_LANE: usize = 8192;
const IN_EACH_OTHER: usize = 2048;
const CONSUMERS: usize = 8;
const EACH_TAKES: usize = 800;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_with_a_backlog_does_not_hold_up_the_others() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("orders").await;
    queue.set_lanes(stack.api(0), LANES).await;
    let store = store(&stack).await;
    let key = key(&queue);
    let batch = vec![
        NewJob {
            body: Bytes::from_static(b"x"),
            attributes: vec![],
            delay_ms: 0,
            ttl_ms: 0,
            tries: 1,
            mark: false,
            native: None,
        };
        16
    ];
    for lane in 0..LANES {
        let jobs = if lane == 0 {
            IN_THE_FULL_LANE
        } else {
            IN_EACH_OTHER
        };
        for _ in 0..jobs / batch.len() {
            store.publish(key.lane(lane), &batch, None).await.unwrap();
        }
    }
    let consumers: Vec<_> = (0..CONSUMERS)
        .map(|_| {
            let queue = queue.with_separate_connections();
            tokio::spawn(async move {
                let mut buckets = Vec::new();
                for _ in 0..EACH_TAKES {
                    let job = queue.consume().ttr_s(600).job().await.unwrap();
                    buckets.push(bucket(&job.id));
                }
                buckets
            })
        })
        .collect();
    let mut shares: BTreeMap<u16, usize> = BTreeMap::new();
    for consumer in consumers {
        for bucket in consumer.await.unwrap() {
            *shares.entry(bucket).or_default() += 1;
        }
    }
    print_figure(&format!(
        "jobs that eight consumers took of each of eight lanes: {shares:?}"
    ));
    // 800 of each on average. Shares vary by the jobs of a turn of 5 ms, which are 200 at 40 000 jobs/s. A lane that is
    // left out, or takes every turn, is far outside of that.
    let even = CONSUMERS * EACH_TAKES / usize::from(LANES);
    for lane in 0..LANES {
        let share = shares
            .get(&store.bucket_of(key.lane(lane)))
            .copied()
            .unwrap_or(0);
        assert!(
            (even / 4..even * 2).contains(&share),
            "lane {lane}: {shares:?}"
        );
    }
    stack.finish().await;
}
