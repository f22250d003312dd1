//! Lanes are added and removed at random while several processes publish and consume.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tidegate_core::JobsByState;

use rand::RngExt;
use tidegate_testkit::{QueueClient, Stack, eventually, print_figure, random};

use crate::fixture::{PATIENCE, until_used};

const CHANGES: usize = 25;
const JOBS_PER_CHANGE: usize = 60;

/// The jobs that clients published and received.
#[derive(Debug, Default)]
struct SeenJobs {
    published: Mutex<Vec<String>>,
    /// How often each job was delivered.
    delivered: Mutex<HashMap<String, usize>>,
    acked: AtomicUsize,
    is_over: AtomicBool,
}

async fn produce(seen: Arc<SeenJobs>, queue: QueueClient, number: usize) {
    let mut round = number;
    while !seen.is_over.load(Ordering::Relaxed) {
        round += 1;
        let mut ids = match round % 4 {
            0 => {
                let bodies: Vec<String> = (0..5).map(|body| body.to_string()).collect();
                queue.publish_bulk(&bodies).tries(1).ttl_s(0).ids().await
            }
            1 => vec![queue.publish("x").delay_s(1).tries(1).ttl_s(0).id().await],
            2 => {
                // The second job is delivered, whether the first one was replaced or not.
                let first = queue.publish("x").delay_s(600).tries(1).ttl_s(0).id().await;
                vec![queue.republish(&first, "y").tries(1).ttl_s(0).id().await]
            }
            _ => vec![queue.publish("x").tries(1).ttl_s(0).id().await],
        };
        seen.published.lock().unwrap().append(&mut ids);
    }
}

/// Jobs have one try and long leases: none may be delivered twice.
async fn consume(seen: Arc<SeenJobs>, queue: QueueClient, count: u64) {
    while !seen.is_over.load(Ordering::Relaxed) {
        let consume = queue.consume().ttr_s(600).timeout_s(1).count(count);
        for job in consume.jobs().await {
            *seen
                .delivered
                .lock()
                .unwrap()
                .entry(job.id.clone())
                .or_default() += 1;
            queue.ack(&job.id).await;
            seen.acked.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_is_lost_or_duplicated_while_lanes_change() {
    let stack = Stack::builder().apis(2).pumps(2).start().await;
    let queue = stack.queue("orders").await;
    let (producing, consuming) = (Arc::new(SeenJobs::default()), Arc::new(SeenJobs::default()));
    let at = |number: usize| {
        queue
            .on_api(stack.api(number % 2))
            .with_separate_connections()
    };
    let producers: Vec<_> = (0..6)
        .map(|number| tokio::spawn(produce(Arc::clone(&producing), at(number), number)))
        .collect();
    let consumers: Vec<_> = (0..8)
        .map(|number| {
            let count = [2, 1, 20, 1][number / 2];
            tokio::spawn(consume(Arc::clone(&consuming), at(number), count))
        })
        .collect();
    let mut choices = random("lanes");
    let mut tried: BTreeMap<u16, usize> = BTreeMap::new();
    for change in 1..=CHANGES {
        let passed = async || match consuming.acked.load(Ordering::Relaxed) {
            acked if acked >= change * JOBS_PER_CHANGE => Ok(()),
            acked => Err(acked),
        };
        eventually("jobs pass", PATIENCE, passed).await;
        let open = [1, 1, 2, 3, 8, 16, 64][choices.random_range(0..7)];
        *tried.entry(open).or_default() += 1;
        queue
            .set_lanes(stack.api(choices.random_range(0..2)), open)
            .await;
    }
    queue.set_lanes(stack.api(0), 1).await;
    producing.is_over.store(true, Ordering::Relaxed);
    for producer in producers {
        producer.await.unwrap();
    }
    let published = producing.published.lock().unwrap().clone();
    let all = async || match consuming.acked.load(Ordering::Relaxed) {
        acked if acked >= published.len() => Ok(()),
        acked => Err(published.len() - acked),
    };
    eventually("every job is acked", PATIENCE, all).await;
    consuming.is_over.store(true, Ordering::Relaxed);
    for consumer in consumers {
        consumer.await.unwrap();
    }
    let delivered = consuming.delivered.lock().unwrap().clone();
    let doubled: Vec<_> = delivered.iter().filter(|(_, times)| **times > 1).collect();
    assert!(doubled.is_empty(), "{doubled:?}");
    let strange: Vec<_> = published
        .iter()
        .filter(|id| !delivered.contains_key(*id))
        .collect();
    assert!(
        strange.is_empty() && delivered.len() == published.len(),
        "{strange:?}"
    );
    print_figure(&format!(
        "{} jobs passed while lanes were set to {tried:?}",
        published.len()
    ));
    assert_eq!(stack.totals().await, JobsByState::default());
    until_used(stack.api(1), &queue, 1).await;
    stack.finish().await;
}
