//! A queue is not delayed by the backlogs of other queues, also not by one in its bucket.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate_core::{NewJob, QueueKey};
use tidegate_store::{Store, StoreConfig};
use tidegate_testkit::{Stack, eventually, print_figure};
use tokio::time::timeout;

use crate::alone;
use crate::figures::Durations;

/// Queues with a backlog, each in another bucket.
const BACKLOGS: usize = 32;
/// Two calls of the pump take the jobs of a queue, so half of the time passes between them.
const JOBS: usize = 1920;
const PUMP: &str = "[pump]\nmove_limit = 1000\nconcurrency = 1";
/// Queues in the first of these buckets, with a job due every few ms.
const BESIDE: usize = 8;
const GAPS: [Duration; 6] = [
    Duration::from_millis(10),
    Duration::from_millis(30),
    Duration::from_millis(60),
    Duration::from_millis(90),
    Duration::from_millis(120),
    Duration::from_millis(150),
];
const BATCH: usize = 64;
/// How long publishing may take at first; doubled until it is enough.
const LEAD: Duration = Duration::from_secs(2);
/// When publishing must have ended before the jobs are due.
const MARGIN: Duration = Duration::from_millis(500);
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_due_job_does_not_wait_until_the_backlogs_of_all_buckets_had_a_turn() {
    let _alone = alone().await;
    let stack = Stack::builder().pump_config(PUMP).start().await;
    let config = StoreConfig::new(stack.redis.url());
    let store = Store::connect(&config).await.unwrap();
    let mut lead = LEAD;
    let (burst, due_at) = loop {
        let burst = Burst::named(&store, &format!("{lead:?}"));
        let due_at = Instant::now() + lead;
        burst.publish(&store, due_at).await;
        if Instant::now() + MARGIN < due_at {
            break (burst, due_at);
        }
        lead *= 2;
    };
    let watching =
        async { tokio::join!(burst.watch(&store, due_at), burst.drained(&store, due_at)) };
    let (latenesses, drained) = timeout(LIMIT, watching).await.expect("all jobs are ready");
    latenesses.show("late beside a backlog in the same bucket");
    print_figure(&format!("the backlogs were moved in {drained:.1?}"));
    // If jobs waited for the turn of the backlog in their bucket, every tenth would be late by nearly half of this.
    assert!(
        latenesses.at(0.9) * 4 < drained,
        "a tenth of the jobs were late by {:?} or more; the backlogs were moved in {drained:?}",
        latenesses.at(0.9)
    );
    stack.finish().await;
}

/// Queues in different buckets, and others in the buckets of the first ones.
struct Burst {
    backlogs: Vec<QueueKey>,
    beside: Vec<QueueKey>,
}

impl Burst {
    fn named(store: &Store, name: &str) -> Self {
        let mut queues = (0..).map(|number| {
            let name = format!("shop/{name}-{number}");
            QueueKey::try_from(name.as_str()).unwrap()
        });
        let mut backlogs: Vec<QueueKey> = Vec::new();
        let bucket = |queue: &QueueKey| store.bucket_of(queue);
        while backlogs.len() < BACKLOGS {
            let queue = queues.next().unwrap();
            if backlogs.iter().all(|other| bucket(other) != bucket(&queue)) {
                backlogs.push(queue);
            }
        }
        let beside = backlogs[..BESIDE].iter().map(|backlog| {
            let others = queues.by_ref();
            others.find(|it| bucket(it) == bucket(backlog)).unwrap()
        });
        let beside = beside.collect();
        Self { backlogs, beside }
    }

    /// All backlogs are due at once, and the jobs beside them one after the other.
    async fn publish(&self, store: &Store, due_at: Instant) {
        let publishing = self.backlogs.iter().map(async |queue| {
            for _ in (0..JOBS).step_by(BATCH) {
                let jobs = vec![job(due_at); BATCH];
                store.publish(queue, &jobs, None).await.unwrap();
            }
        });
        join_all(publishing).await;
        for queue in &self.beside {
            let jobs = GAPS.map(|gap| job(due_at + gap));
            store.publish(queue, &jobs, None).await.unwrap();
        }
    }

    /// How late the jobs beside the backlogs are ready.
    async fn watch(&self, store: &Store, due_at: Instant) -> Durations {
        let mut latenesses = Durations::new();
        let mut seen = [0; BESIDE];
        while seen.iter().any(|ready| *ready < GAPS.len()) {
            for (queue, seen) in self.beside.iter().zip(&mut seen) {
                let ready = usize::try_from(store.stats(queue).await.unwrap().ready).unwrap();
                for gap in &GAPS[*seen..ready] {
                    latenesses.add((due_at + *gap).elapsed());
                }
                *seen = ready;
            }
        }
        latenesses
    }

    /// How long after they were due all jobs of the backlogs are ready.
    async fn drained(&self, store: &Store, due_at: Instant) -> Duration {
        let looks = async || {
            for queue in &self.backlogs {
                let stats = store.stats(queue).await.unwrap();
                if stats.delayed > 0 {
                    return Err(stats.delayed);
                }
            }
            Ok(due_at.elapsed())
        };
        eventually("the backlogs are moved", LIMIT, looks).await
    }
}

fn job(due_at: Instant) -> NewJob {
    let delay = due_at.saturating_duration_since(Instant::now());
    NewJob {
        body: "x".into(),
        attributes: Vec::new(),
        delay_ms: u64::try_from(delay.as_millis()).unwrap(),
        ttl_ms: 0,
        tries: 1,
        mark: false,
        native: None,
    }
}
