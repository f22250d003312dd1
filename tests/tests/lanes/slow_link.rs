//! Lanes whose server is far away: calls take longer than the others of their queue wait for them.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_testkit::{FarApi, Stack};

use crate::fixture::bucket;

/// More than the 25 ms after which a queue continues without a call.
const DELAY: Duration = Duration::from_millis(40);

const JOBS: usize = 120;

/// More than the 270 ms for which a consumer without a timeout waits for a slow server before it asks the next one.
const FAR: Duration = Duration::from_millis(400);

/// Two lanes then answer one claim for several jobs. Those of the later one are given back, and the next look into
/// its lane must not come before that is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_lane_keeps_its_order_although_jobs_are_given_back_to_it() {
    let stack = Stack::builder().start().await;
    let far = FarApi::start(&stack, "3s").await;
    let queue = stack.queue("far").await;
    queue.set_lanes(stack.api(0), 8).await;
    let mut published = Vec::new();
    for job in 0..JOBS {
        published.push(queue.publish(job.to_string()).tries(1).id().await);
    }
    let queue = queue.on_api(&far.api);
    // It knows the token and the lanes.
    queue.size().await;
    far.slow_down(DELAY);
    let mut taken = Vec::new();
    while taken.len() < JOBS {
        let jobs = queue.consume().count(20).timeout_s(10).ttr_s(600);
        let jobs = jobs.jobs().await;
        assert!(!jobs.is_empty(), "{} of {JOBS} jobs came", taken.len());
        taken.extend(jobs.into_iter().map(|job| job.id));
    }
    let given_back = far.api.metric("tidegate_jobs_released_total").await;
    assert!(given_back > 0.0, "nothing was tried");
    let of_lane = |ids: &[String]| {
        let mut lanes: BTreeMap<u16, Vec<String>> = BTreeMap::new();
        for id in ids {
            lanes.entry(bucket(id)).or_default().push(id.clone());
        }
        lanes
    };
    assert_eq!(of_lane(&taken), of_lane(&published));
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_queue_on_a_distant_server_is_empty_and_no_failure() {
    let stack = Stack::builder().start().await;
    let far = FarApi::start(&stack, "3s").await;
    let queue = stack.queue("empty").await;
    let queue = queue.on_api(&far.api);
    for lanes in [1, 8] {
        queue.set_lanes(stack.api(0), lanes).await;
        queue.size().await;
        far.slow_down(FAR);
        for count in [1, 5] {
            let several = queue.consume_from(&["empty", "empty-too"]);
            for consume in [queue.consume(), several] {
                let answer = consume.count(count).send().await.unwrap();
                assert_eq!(answer.status, 404, "{lanes} lanes: {answer}");
            }
        }
        far.slow_down(Duration::ZERO);
    }
    stack.finish().await;
}

/// The 250 ms for which a consumer waits for slow servers are over after the first of the queues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_does_not_wait_looks_into_each_of_many_queues_of_a_slow_server() {
    const QUEUES: usize = 40;
    /// More than the 20 ms within which a server is prompt.
    const SLOW: Duration = Duration::from_millis(60);
    let stack = Stack::builder().start().await;
    let far = FarApi::start(&stack, "3s").await;
    let names: Vec<String> = (0..QUEUES).map(|number| format!("q{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let last = stack.queue(names[QUEUES - 1]).await;
    let last = last.on_api(&far.api);
    last.size().await;
    far.slow_down(SLOW);
    let consume = last.consume_from(&names);
    consume.send().await.unwrap().expect(404);
    let published = last.publish("last").id().await;
    let found = last.consume_from(&names).job().await.unwrap();
    assert_eq!(found.id, published);
    far.slow_down(Duration::ZERO);
    stack.finish().await;
}
