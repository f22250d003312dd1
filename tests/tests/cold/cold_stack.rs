//! A deployment with the cold tier, and a clock that the test sets.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tidegate_testkit::{QueueClient, RedisOptions, Stack, WallClock, eventually};

/// Longer than a pass of the cold tier takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
pub(crate) const HOUR_S: u64 = 3600;
/// The jobs of a batch.
const BATCH: usize = 50;

pub(crate) struct ColdStack {
    pub(crate) stack: Stack,
    pub(crate) queue: QueueClient,
    pumps: usize,
    clock: WallClock,
    folder: TempDir,
    /// The settings of the pool.
    pool: String,
}

/// A job that has been published: its id and its body.
pub(crate) type Published = (String, String);

impl ColdStack {
    /// A folder as the object store.
    pub(crate) async fn start(pumps: usize, pump_config: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("file://{}/cold", folder.path().display());
        Self::start_with(RedisOptions::new(), folder, &url, pumps, pump_config, &[]).await
    }

    pub(crate) async fn start_with(
        redis: RedisOptions,
        folder: TempDir,
        url: &str,
        pumps: usize,
        pump_config: &str,
        environment: &[(String, String)],
    ) -> Self {
        let clock = WallClock::new(folder.path(), "redis");
        let pool = format!("[pool.default]\ncold_url = \"{url}\"\ncold_interval = \"1s\"\n");
        let stack = Stack::builder()
            .redis(redis.clock(&clock))
            .pumps(pumps)
            .lease("2s")
            .api_config(&pool)
            .pump_config(&(pool.clone() + pump_config))
            .environment(environment)
            .start()
            .await;
        let queue = stack.queue("q").await;
        Self {
            stack,
            queue,
            pumps,
            clock,
            folder,
            pool,
        }
    }

    /// Adds these lines to the pool of the pumps, from their next start on.
    pub(crate) fn change_pump_config(&self, lines: &str) {
        self.stack.change_pump_config(&(self.pool.clone() + lines));
    }

    /// The folder of the object store.
    pub(crate) fn objects(&self) -> PathBuf {
        self.folder.path().join("cold")
    }

    /// Sets the clock of Redis so much ahead of the clock of the machine.
    pub(crate) fn forward(&self, seconds: u64) {
        self.clock.set(i64::try_from(seconds).expect("a few years"));
    }

    /// Publishes jobs that are due in so many seconds. Each has another body, of about so many bytes.
    pub(crate) async fn publish(&self, jobs: usize, delay_s: u64, bytes: usize) -> Vec<Published> {
        let mut published = Vec::with_capacity(jobs);
        for first in (0..jobs).step_by(BATCH) {
            let numbers = first..jobs.min(first + BATCH);
            let bodies: Vec<String> = numbers.map(|number| text(number, bytes)).collect();
            let publish = self.queue.publish_bulk(&bodies).delay_s(delay_s);
            let ids = publish.ttl_s(delay_s + 100 * HOUR_S).ids().await;
            published.extend(ids.into_iter().zip(bodies));
        }
        published
    }

    /// The sum of a metric of all pumps.
    pub(crate) async fn pump_metric(&self, name: &str) -> f64 {
        let mut sum = 0.0;
        for number in 0..self.pumps {
            let pump = self.stack.pump(number);
            if pump.is_running() {
                sum += pump.metric(name).await;
            }
        }
        sum
    }

    /// Waits until a metric of the pumps has this value.
    pub(crate) async fn until(&self, name: &str, value: usize) {
        eventually(&format!("{name} is {value}"), LIMIT, async || {
            match self.pump_metric(name).await {
                found if found == value as f64 => Ok(()),
                found => Err(found),
            }
        })
        .await;
    }

    pub(crate) async fn until_frozen(&self, jobs: usize) {
        self.until(FROZEN, jobs).await;
    }

    pub(crate) async fn until_thawed(&self, jobs: usize) {
        self.until(THAWED, jobs).await;
    }

    /// Consumes exactly these jobs, each with its body.
    pub(crate) async fn expect(&self, published: &[Published]) {
        let mut left: HashSet<Published> = published.iter().cloned().collect();
        while !left.is_empty() {
            let jobs = self
                .queue
                .consume()
                .count(BATCH as u64)
                .timeout_s(20)
                .jobs()
                .await;
            assert!(!jobs.is_empty(), "{} jobs are missing", left.len());
            for job in jobs {
                let found = left.remove(&(job.id.clone(), job.text()));
                assert!(found, "{job:?} is of another test, or has another body");
                self.queue.ack(&job.id).await;
            }
        }
    }
}

pub(crate) const FROZEN: &str = "tidegate_cold_moved_jobs_total{pool=\"default\",to=\"frozen\"}";
pub(crate) const THAWED: &str = "tidegate_cold_moved_jobs_total{pool=\"default\",to=\"thawed\"}";

/// A text in JSON of about so many bytes that cannot be compressed to a small one.
fn text(number: usize, bytes: usize) -> String {
    let mut state = number as u64;
    let digits = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        format!("{:08x}", state >> 32)
    });
    let digits: String = digits.take(bytes / 8).collect();
    format!("\"{number}-{digits}\"")
}

/// The files below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}
