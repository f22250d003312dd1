//! A consumer that waits at one process is woken by a publish at another.

use std::time::{Duration, Instant};

use tidegate_testkit::Stack;

use crate::alone;
use crate::figures::Durations;

const ROUNDS: usize = 200;
const MEDIAN_MAX: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_is_woken_across_processes() {
    let _alone = alone().await;
    let stack = Stack::builder().apis(2).pumps(0).start().await;
    let here = stack.queue("bell").await;
    let there = here.on_api(stack.api(1));
    let mut wake_ups = Durations::new();
    for round in 0..ROUNDS {
        let consume = here.consume().timeout_s(20);
        let waiting = tokio::spawn(async move {
            let job = consume.job().await.unwrap();
            (job, Instant::now())
        });
        stack.api(0).wait_for_waiting_consumers(1).await;
        let published_at = Instant::now();
        there.publish(round.to_string()).id().await;
        let (job, received_at) = waiting.await.unwrap();
        assert_eq!(job.text(), round.to_string());
        wake_ups.add(received_at - published_at);
        here.ack(&job.id).await;
    }
    wake_ups
        .show("from the request that publishes at one api to the consumer that waits at another");
    assert!(
        wake_ups.at(0.5) <= MEDIAN_MAX,
        "median is {:?}",
        wake_ups.at(0.5)
    );
    stack.finish().await;
}
