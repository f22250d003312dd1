//! An API and a pump are killed under many consumers.

use std::time::{Duration, Instant};
use tidegate_core::JobsByState;

use rand::RngExt;
use tidegate_testkit::{QueueClient, RedisOptions, Stack, eventually, print_figure, random};

use crate::crowd::Crowd;
use crate::jobs::queues;

const JOBS: usize = 10_000;
const BULK: usize = 64;
const QUEUES: usize = 8;
const CONSUMERS: usize = 64;
const KILLS: usize = 12;
const TRIES: u64 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_an_api_under_load_loses_no_job() {
    let stack = Stack::builder()
        .redis(RedisOptions::new().always_synced())
        .apis(2)
        .lease("500ms")
        .start()
        .await;
    let mut random = random("api killed");
    let here = queues(&stack.queue("first").await, QUEUES);
    let there: Vec<QueueClient> = here
        .iter()
        .map(|queue| queue.on_api(stack.api(1)))
        .collect();
    let mut crowd = Crowd::start(CONSUMERS, &[here, there.clone()]);
    let publishing = tokio::spawn(publish(there));

    // Each kill waits until more jobs are acked, so that there is traffic around it.
    for kill in 0..KILLS {
        let part = JOBS * (kill + 1) / (KILLS + 2);
        crowd.until_acked(part).await;
        let moment = Duration::from_micros(random.random_range(0..20_000));
        tokio::time::sleep(moment).await;
        if kill % 3 == 2 {
            stack.pump(0).restart().await;
        } else {
            stack.api(0).kill();
            crowd.until_acked(part + JOBS / 100).await;
            stack.api(0).restart().await;
        }
    }
    let ids = publishing.await.unwrap();
    let begin = Instant::now();
    crowd.until_acked(JOBS).await;
    crowd.stop().await;
    judge(&crowd, &ids);
    let nothing = async || match stack.totals().await {
        totals if totals == JobsByState::default() => Ok(()),
        totals => Err(format!("{totals:?}")),
    };
    eventually("no job is left", Duration::from_secs(10), nothing).await;
    print_figure(&format!(
        "the last jobs were acked {:?} after the last was published",
        begin.elapsed()
    ));
    stack.finish().await;
}

async fn publish(queues: Vec<QueueClient>) -> Vec<String> {
    let bodies = vec!["1".to_owned(); BULK];
    let mut ids = Vec::new();
    while ids.len() < JOBS {
        let queue = &queues[ids.len() / BULK % QUEUES];
        let count = BULK.min(JOBS - ids.len());
        let bulk = queue.publish_bulk(&bodies[..count]).ttl_s(0).tries(TRIES);
        ids.extend(bulk.ids().await);
    }
    ids
}

fn judge(crowd: &Crowd, ids: &[String]) {
    let seen = crowd.seen();
    assert_eq!(ids.len(), JOBS);
    for id in ids {
        assert!(seen.acked.contains(id), "{id} is lost");
    }
    assert_eq!(
        seen.tries_left.len(),
        JOBS,
        "jobs came that were not published"
    );
    let on_the_way = seen.tries_left.values().filter(|left| **left < TRIES - 1);
    print_figure(&format!(
        "api killed: {JOBS} jobs, {} requests cut; {} jobs needed the end of a lease, {} came twice",
        seen.cut,
        on_the_way.count(),
        seen.doubled
    ));
    assert!(seen.cut > 0, "the kills cut no request");
}
