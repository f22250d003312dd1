//! Pumps start, are killed and are stopped: each time every bucket soon has exactly one leader, and shares are even.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidegate_core::keys::{DeploymentKeys, bucket_of_channel};
use tidegate_testkit::{
    ClusterGroup, Daemon, DaemonProgram, RedisOptions, connect_to_redis, eventually, print_figure,
};

const BUCKETS: usize = 256;
const LEASE: Duration = Duration::from_secs(3);
/// The time allowed beyond the end of a lease, most of it for busy machines. A figure shows the measured time.
const SLACK: Duration = Duration::from_secs(3);
const STOP_MAX: Duration = Duration::from_secs(20);

/// The leader of each bucket, by the primary that keeps its lock.
type Leaders = BTreeMap<u16, (usize, String)>;

/// Pumps of one deployment, by their names.
struct Pumps {
    folder: TempDir,
    /// The servers that keep the locks.
    urls: Vec<String>,
    running: BTreeMap<String, Daemon>,
    leaders: Leaders,
}

impl Pumps {
    fn new(pool: &str, urls: Vec<String>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = format!("[pool.default]\n{pool}\n");
        std::fs::write(folder.path().join("settings.toml"), settings).unwrap();
        Self {
            folder,
            urls,
            running: BTreeMap::new(),
            leaders: Leaders::new(),
        }
    }

    /// Starts pumps until there are `count`.
    async fn grow_to(&mut self, count: usize) {
        let config = self.folder.path().join("settings.toml");
        for number in self.running.len()..count {
            let name = format!("pump-{number}");
            let arguments = [
                "--config",
                config.to_str().unwrap(),
                "--lease",
                "3s",
                "--instance",
                &name,
            ];
            let arguments = arguments.map(str::to_owned);
            let pump =
                Daemon::start(DaemonProgram::Pumpd, &name, &arguments, self.folder.path()).await;
            self.running.insert(name, pump);
        }
        self.until_even(&format!("{count} pumps"), Instant::now(), LEASE)
            .await;
    }

    /// Waits until each bucket is led by a running pump and shares differ by at most one bucket. Fails if this takes
    /// longer than `limit`.
    async fn until_even(&mut self, what: &str, since: Instant, limit: Duration) {
        let (low, high) = (
            BUCKETS / self.running.len(),
            BUCKETS.div_ceil(self.running.len()),
        );
        let look = async || {
            let leaders = leaders_now(&self.urls).await;
            let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
            for (_, leader) in leaders.values() {
                *sizes.entry(leader).or_default() += 1;
            }
            let is_even = |name: &String| {
                sizes
                    .get(name.as_str())
                    .is_some_and(|size| (low..=high).contains(size))
            };
            // A pump that stops may still lead a bucket.
            let only_running = sizes.len() == self.running.len();
            match leaders.len() == BUCKETS && only_running && self.running.keys().all(is_even) {
                true => Ok(leaders),
                false => Err(format!("{sizes:?}")),
            }
        };
        let leaders = eventually("shares are even", STOP_MAX, look).await;
        let took = since.elapsed();
        for (name, pump) in &self.running {
            let known = async || {
                // Read each time: on a busy machine a lock may expire, and its bucket change the pump.
                let now = leaders_now(&self.urls).await;
                let of_pump = now.values().filter(|(_, leader)| leader == name);
                let led = of_pump.count();
                match pump.metric("tidegate_pump_buckets_held").await {
                    held if held == led as f64 => Ok(()),
                    held => Err(format!("{held} of {led}")),
                }
            };
            eventually("a pump knows what it leads", STOP_MAX, known).await;
        }
        let moved = leaders.iter().filter(|(bucket, (_, leader))| {
            let before = self.leaders.get(bucket);
            before.is_some_and(|(_, before)| before != leader)
        });
        print_figure(&format!(
            "{what}: even after {took:?}, {} buckets moved",
            moved.count()
        ));
        assert!(took < limit, "{took:?}");
        self.leaders = leaders;
    }

    fn take(&mut self, name: &str) -> Daemon {
        self.running.remove(name).unwrap()
    }

    /// How many buckets of each server each pump leads.
    fn by_server(&self) -> BTreeMap<(usize, &str), usize> {
        let mut counts = BTreeMap::new();
        for (server, leader) in self.leaders.values() {
            *counts.entry((*server, leader.as_str())).or_default() += 1;
        }
        counts
    }
}

/// Reads every lock.
async fn leaders_now(urls: &[String]) -> Leaders {
    let buckets = DeploymentKeys::new(256);
    let mut leaders = Leaders::new();
    for (server, url) in urls.iter().enumerate() {
        let client = redis::Client::open(url.as_str()).unwrap();
        let mut connection = connect_to_redis(&client).await.unwrap();
        let locks: Vec<String> = redis::cmd("KEYS")
            .arg("tg:*:{*}:lock")
            .query_async(&mut connection)
            .await
            .unwrap();
        for lock in locks {
            let holder: Option<String> = redis::cmd("GET")
                .arg(&lock)
                .query_async(&mut connection)
                .await
                .unwrap();
            let bucket = bucket_of_channel(&lock).unwrap();
            assert_eq!(lock, buckets.keys(bucket).lock());
            if let Some(holder) = holder {
                leaders.insert(bucket, (server, holder));
            }
        }
    }
    leaders
}

/// One pump, two, five; one is killed, one is stopped.
async fn come_and_go(pumps: &mut Pumps, mut look: impl FnMut(&Pumps)) {
    for count in [1, 2, 5] {
        pumps.grow_to(count).await;
        look(pumps);
    }
    let killed = pumps.take("pump-1");
    let since = Instant::now();
    killed.kill();
    pumps
        .until_even("one of five killed", since, LEASE + SLACK)
        .await;
    look(pumps);
    let stopped = pumps.take("pump-3");
    let since = Instant::now();
    stopped.terminate();
    pumps.until_even("one of four stopped", since, LEASE).await;
    assert_eq!(stopped.wait(STOP_MAX).await.code(), Some(0));
    look(pumps);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buckets_are_shared_evenly_as_pumps_join_and_leave() {
    let redis = RedisOptions::new().start();
    let mut pumps = Pumps::new(&format!("url = \"{}\"", redis.url()), vec![redis.url()]);
    come_and_go(&mut pumps, |_| {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_each_pump_leads_buckets_of_every_primary() {
    let group = ClusterGroup::start().await;
    let mut pumps = Pumps::new(&group.settings(), group.primary_urls().await);
    let look = |pumps: &Pumps| {
        let cells = pumps.by_server();
        assert_eq!(cells.len(), 3 * pumps.running.len());
        let even = BUCKETS / cells.len();
        let (least, most) = (cells.values().min().unwrap(), cells.values().max().unwrap());
        print_figure(&format!(
            "{least} to {most} buckets of each primary a pump, {even} on average"
        ));
        // The names of the pumps decide, so these counts are not even.
        assert!(least * 3 > even && *most < even * 2, "{cells:?}");
    };
    come_and_go(&mut pumps, look).await;
}
