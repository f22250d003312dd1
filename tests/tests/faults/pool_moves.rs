//! A pool moves from one Redis to another under load, with rolling restarts of the APIs and no pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tidegate_core::JobsByState;

use rand::RngExt;
use rand::rngs::StdRng;
use tidegate_testkit::consistency;
use tidegate_testkit::{
    Daemon, DaemonProgram, QueueClient, RedisOptions, Stack, eventually, print_figure, random,
};

use crate::crowd::Crowd;
use crate::jobs::queues;

const BULK: usize = 16;
const QUEUES: usize = 4;
const CONSUMERS: usize = 32;
const PUBLISHERS: usize = 2;
const TRIES: u64 = 20;
const DELAY_S_MAX: u64 = 3;
/// Jobs between two steps of the move.
const STEP: usize = 1500;
const STOP_LIMIT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_is_lost_or_duplicated_while_a_pool_moves() {
    let admin = RedisOptions::new().start();
    let admin_store = format!("[admin_store]\nurl = \"{}\"\n", admin.url());
    let stack = Stack::builder()
        .apis(2)
        .pumps(2)
        .pool("new")
        .api_config(&admin_store)
        .start()
        .await;
    let here = queues(&stack.queue("first").await, QUEUES);
    let there: Vec<QueueClient> = here
        .iter()
        .map(|queue| queue.on_api(stack.api(1)))
        .collect();
    let both = [here, there];
    let mut crowd = Crowd::start(CONSUMERS, &both);
    let publishers = PublishersOfBothPools::start(&both);

    // One API after the other gets the new setting. In between, one moves the pool and the other one does not.
    crowd.until_acked(STEP).await;
    stack.change_api_config(&format!(
        "{admin_store}[pool.default]\nmigrate_to = \"new\""
    ));
    for api in 0..2 {
        stack.api(api).stop(STOP_LIMIT).await;
        stack.api(api).restart().await;
        let acked = crowd.seen().acked.len();
        crowd.until_acked(acked + STEP).await;
    }
    let begin = Instant::now();
    until_empty("the old Redis is empty", &stack.redis.url()).await;
    let emptied = begin.elapsed();
    let moved = consistency::totals(&stack.redis_of("new").url()).await;
    assert_ne!(
        moved,
        JobsByState::default(),
        "the load continues in the new Redis"
    );

    // The old Redis is removed from the settings: an API that knows only the new one, as its default pool.
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("after.toml");
    std::fs::write(&config, &admin_store).unwrap();
    let arguments = ["--redis", &stack.redis_of("new").url(), "--config"].map(str::to_owned);
    let arguments = [&arguments[..], &[config.display().to_string()]].concat();
    let after = Daemon::start(DaemonProgram::Api, "api-after", &arguments, folder.path()).await;
    let last = both[0][0].on_api(&after).publish("1").ttl_s(0).tries(TRIES);
    let last = last.id().await;

    let published = publishers.stop().await;
    let new = stack.redis_of("new").url();
    until_empty("all jobs are acked", &new).await;
    crowd.stop().await;
    judge(&crowd, published, last, emptied);
    stack.finish().await;
}

async fn until_empty(what: &str, redis: &str) {
    eventually(
        what,
        Duration::from_secs(60),
        async || match consistency::totals(redis).await {
            totals if totals == JobsByState::default() => Ok(()),
            totals => Err(format!("{totals:?}")),
        },
    )
    .await;
}

fn judge(crowd: &Crowd, published: CrowdPublishes, last: String, emptied: Duration) {
    let seen = crowd.seen();
    let known = published.ids.len() + 1;
    for id in published.ids.iter().chain([&last]) {
        assert!(seen.acked.contains(id), "{id} is lost");
    }
    let unknown = seen.acked.len() - known;
    assert!(
        unknown <= published.unanswered,
        "{unknown} jobs came that were not published"
    );
    print_figure(&format!(
        "pool moves: {known} jobs, {} publishes and {} other requests without an answer, {} jobs came twice; \
         the old Redis was empty {emptied:?} after the last API had restarted",
        published.unanswered / BULK,
        seen.cut,
        seen.doubled
    ));
}

/// The jobs of a publisher.
#[derive(Debug, Default)]
struct CrowdPublishes {
    ids: Vec<String>,
    /// Jobs in requests that were sent and got no answer: they may be stored or not.
    unanswered: usize,
}

struct PublishersOfBothPools {
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<CrowdPublishes>>,
}

impl PublishersOfBothPools {
    fn start(both: &[Vec<QueueClient>; 2]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..PUBLISHERS).map(|number| {
            let random = random(&format!("pool moves: publisher {number}"));
            tokio::spawn(publish(number, both.clone(), random, Arc::clone(&stop)))
        });
        Self {
            tasks: tasks.collect(),
            stop,
        }
    }

    async fn stop(self) -> CrowdPublishes {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = CrowdPublishes::default();
        for task in self.tasks {
            let published = task.await.unwrap();
            all.ids.extend(published.ids);
            all.unanswered += published.unanswered;
        }
        all
    }
}

/// Publishes through one API, and through the other while the first does not answer.
async fn publish(
    number: usize,
    both: [Vec<QueueClient>; 2],
    mut random: StdRng,
    stop: Arc<AtomicBool>,
) -> CrowdPublishes {
    let bodies = vec!["1".to_owned(); BULK];
    let mut published = CrowdPublishes::default();
    let mut choice = number % 2;
    while !stop.load(Ordering::Relaxed) {
        let queue = &both[choice][random.random_range(0..QUEUES)];
        let bulk = queue.publish_bulk(&bodies).ttl_s(0).tries(TRIES);
        let bulk = bulk.delay_s(random.random_range(0..=DELAY_S_MAX));
        match bulk.send().await {
            Ok(answer) => {
                let json = answer.expect(201).json();
                let ids = json["job_ids"].as_array().unwrap().iter();
                let ids = ids.map(|id| id.as_str().unwrap().to_owned());
                published.ids.extend(ids);
                choice = number % 2;
                // Not faster than the consumers.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => {
                published.unanswered += if error.is_connect() { 0 } else { BULK };
                choice = 1 - choice;
            }
        }
    }
    published
}
