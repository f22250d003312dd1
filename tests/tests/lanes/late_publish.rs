//! A publish that is held up on its way, while the lane that it goes to is closed and taken out of use.

use std::time::Duration;

use tidegate_testkit::fault_proxy::{Flow, Way, Weather};
use tidegate_testkit::{Daemon, FaultProxy, Program, Stack, seed};
use tokio::time::{Instant, sleep_until};

use crate::fixture::{bucket, key, lanes, let_time_pass, store, until_used};

const LANES: u16 = 64;
/// For so long a process believes what it read of the lanes, and a second.
const NO_LONGER_BELIEVED: Duration = Duration::from_secs(6);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_comes_late_to_a_closed_lane_is_found() {
    let stack = Stack::builder().start().await;
    let proxy = FaultProxy::start(stack.redis.address(), seed()).await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("api.toml");
    let pool = format!(
        "[pool.default]\nurl = \"redis://{}\"\ncommand_timeout = \"2m\"\n",
        proxy.address()
    );
    std::fs::write(&config, pool).unwrap();
    let arguments = ["--config".to_owned(), config.display().to_string()];
    let held_up = Daemon::start(Program::Api, "held-up", &arguments, folder.path()).await;
    let queue = stack.queue("orders").await;
    let (store, key) = (store(&stack).await, key(&queue));
    let first = store.bucket_of(&key);
    // Once in 64 times the lane of its choice is the one that is always open, which shows nothing.
    loop {
        queue.set_lanes(&held_up, LANES).await;
        let known = queue.at(&held_up).publish("known").id().await;
        queue.ack(&known).await;
        proxy.set(Weather {
            to_server: Way {
                flow: Flow::Stalls,
                ..Way::default()
            },
            ..Weather::default()
        });
        let begin = Instant::now();
        let late = queue.at(&held_up).apart();
        let late = tokio::spawn(async move { late.publish("late").id().await });
        queue.set_lanes(stack.api(0), 1).await;
        let_time_pass(&stack, &queue).await;
        until_used(stack.api(0), &queue, 1).await;
        sleep_until(begin + NO_LONGER_BELIEVED).await;
        assert!(!late.is_finished(), "it was not held up");
        proxy.set(Weather::default());
        let id = late.await.unwrap();
        let job = queue.consume().timeout_s(60).ttr_s(60).job().await.unwrap();
        assert_eq!(job.id, id);
        queue.ack(&id).await;
        if bucket(&id) != first {
            let (open, used) = lanes(stack.api(0), &queue).await;
            let lane = store.lane_in(bucket(&id), &key, LANES).unwrap();
            assert_eq!((open, used), (1, u64::from(lane) + 1));
            break;
        }
    }
    // What was covered is taken out of use again.
    let_time_pass(&stack, &queue).await;
    until_used(stack.api(0), &queue, 1).await;
    drop(held_up);
    stack.finish().await;
}
