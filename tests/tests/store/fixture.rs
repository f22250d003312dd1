//! A private Redis and a store on it.

use std::time::Duration;

use bytes::Bytes;
use tidegate_core::{JobId, JobState, NewJob, QueueKey};
use tidegate_store::{
    Claim, JobSelection, LeaseOutcome, ListPosition, ListedQueue, LoadSlotOutcome, MoveDueOutcome,
    QueueSizes, Store, StoreConfig, SweepOutcome,
};
use tidegate_testkit::{RedisOptions, RedisServer};

/// The time at which tests begin: the start of a far slot of each level, so that slots are easy to compute.
pub(crate) const START: u64 = 6592 * 4096 * 65_536;
/// The token with which [`Fixture::move_due`] and the other calls of a pump lead all buckets.
pub(crate) const TOKEN: &str = "pump-under-test";
/// How often a lease may expire before a job that counts failures is dead.
pub(crate) const LOSSES_MAX: u16 = 3;
/// Longer than any answer takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// The bucket of the tests is in the middle of all slots, which is in the second of three parts.
const OWNER_OF_BUCKET_0: usize = 1;
/// A slot is loaded this long before it begins.
pub(crate) const LEAD_MS: u64 = 65_536;

pub(crate) struct StoreFixture {
    /// The server that has the bucket.
    pub(crate) redis: RedisServer,
    /// The others of a cluster.
    _others: Vec<RedisServer>,
    pub(crate) store: Store,
    pub(crate) queue: QueueKey,
}

pub(crate) async fn fixture() -> StoreFixture {
    fixture_on(RedisOptions::new()).await
}

pub(crate) async fn fixture_on(options: RedisOptions) -> StoreFixture {
    let redis = options.start();
    let config = StoreConfig::new(redis.url());
    connected(redis, Vec::new(), config).await
}

/// A store whose far slots have this width.
pub(crate) async fn fixture_with_slots(slot_ms: u32) -> StoreFixture {
    let redis = RedisOptions::new().start();
    let mut config = StoreConfig::new(redis.url());
    config.slot_ms = slot_ms;
    connected(redis, Vec::new(), config).await
}

/// A store on a cluster of three servers and their replicas.
pub(crate) async fn fixture_on_cluster() -> StoreFixture {
    let mut servers = RedisOptions::new().start_cluster(3).servers;
    let mut config = StoreConfig::new("");
    config.cluster = vec![servers[0].url()];
    let owner = servers.remove(OWNER_OF_BUCKET_0);
    connected(owner, servers, config).await
}

pub(crate) async fn connected(
    redis: RedisServer,
    others: Vec<RedisServer>,
    mut config: StoreConfig,
) -> StoreFixture {
    config.buckets = 1;
    let store = Store::connect(&config).await.unwrap();
    let leased = store.lease_acquire(0, TOKEN, &[]).await.unwrap();
    assert_eq!(leased, LeaseOutcome::Ours);
    let queue = QueueKey::try_from("shop/orders").unwrap();
    StoreFixture {
        redis,
        _others: others,
        store,
        queue,
    }
}

/// All queues of a deployment whose buckets can be read.
pub(crate) async fn all_queues(store: &Store) -> Vec<ListedQueue> {
    let read = store.read_sizes(store.all_buckets(), LIMIT).await;
    let all = QueueSizes::of(read.buckets.values().map(Option::as_ref));
    assert_eq!(all.missing_buckets, 0, "{:?}", read.error);
    all.queues
}

pub(crate) fn job(body: &str) -> NewJob {
    NewJob {
        body: Bytes::copy_from_slice(body.as_bytes()),
        attributes: vec![],
        delay_ms: 0,
        ttl_ms: 0,
        tries: 1,
        mark: false,
        native: None,
    }
}

pub(crate) fn delayed(body: &str, delay_ms: u64) -> NewJob {
    NewJob {
        delay_ms,
        ..job(body)
    }
}

impl StoreFixture {
    pub(crate) async fn publish(&self, now_ms: u64, job: NewJob) -> JobId {
        self.store
            .at(now_ms)
            .publish(&self.queue, &[job], None)
            .await
            .unwrap()[0]
    }

    /// The bodies of up to `count` jobs, leased for `ttr_ms`.
    pub(crate) async fn reserve(&self, now_ms: u64, count: u16, ttr_ms: u64) -> Vec<String> {
        let claim = Claim::new(count, ttr_ms);
        let reserved = self
            .store
            .at(now_ms)
            .reserve(&self.queue, &[claim])
            .await
            .unwrap();
        let jobs = reserved.jobs.into_iter().flatten();
        jobs.map(|job| String::from_utf8(job.body.to_vec()).unwrap())
            .collect()
    }

    pub(crate) async fn expect(&self, now_ms: u64, bodies: &[&str]) {
        assert_eq!(self.reserve(now_ms, 100, 1000).await, bodies);
    }

    /// Loads far slots and moves all due jobs. Returns the sums of all calls.
    pub(crate) async fn move_due(&self, now_ms: u64) -> Moved {
        let store = self.store.at(now_ms);
        while let LoadSlotOutcome::Done { more: true, .. } =
            store.load_slot(0, TOKEN, 50).await.unwrap()
        {}
        let mut all = Moved::default();
        loop {
            match store.move_due(0, TOKEN, 50, LOSSES_MAX).await.unwrap() {
                MoveDueOutcome::NotLeading => panic!("the test leads every bucket"),
                MoveDueOutcome::Done {
                    more,
                    buried,
                    expired,
                    stale,
                    latenesses_ms,
                    next_in_us,
                    ..
                } => {
                    all.ready += latenesses_ms.len();
                    all.buried += buried;
                    all.expired += expired;
                    all.stale += stale;
                    all.next_in = next_in_us.map(Duration::from_micros);
                    if !more {
                        return all;
                    }
                }
            }
        }
    }

    pub(crate) async fn sweep(&self, now_ms: u64) -> u64 {
        let mut swept = 0;
        loop {
            match self.store.at(now_ms).sweep(0, TOKEN, 3).await.unwrap() {
                SweepOutcome::NotLeading => panic!("the test leads every bucket"),
                SweepOutcome::Done { expired, more, .. } => {
                    swept += expired;
                    if !more {
                        return swept;
                    }
                }
            }
        }
    }

    /// The states of all jobs of the queue: delayed, ready, leased, dead.
    pub(crate) async fn counts(&self) -> [u64; 4] {
        let stats = self.store.stats(&self.queue).await.unwrap();
        [stats.delayed, stats.ready, stats.leased, stats.dead]
    }

    /// The ready jobs of a list that reads so many hints in each call, by id.
    pub(crate) async fn list_ready(&self, hints: usize) -> Vec<JobId> {
        let selection = JobSelection {
            states: vec![JobState::Ready],
            from_ms: 0,
            before_ms: u64::MAX >> 16,
            with_attributes: false,
            with_failures: false,
        };
        let (mut listed, mut at) = (Vec::new(), None::<ListPosition>);
        loop {
            let store = self.store.at(START);
            let page = store.list_jobs(self.queue.lane(0), &selection, at.as_ref(), hints);
            let page = page.await.unwrap();
            listed.extend(page.jobs.iter().map(|listed| listed.job.id));
            let Some(next) = page.next else { break };
            // Clients get positions as text.
            at = Some(next.to_string().parse().unwrap());
        }
        listed.sort_unstable();
        listed
    }

    pub(crate) fn connection(&self) -> redis::Connection {
        redis::Client::open(self.redis.url())
            .unwrap()
            .get_connection()
            .unwrap()
    }

    /// Deletes everything of the bucket but its lock.
    pub(crate) fn forget_jobs(&self) {
        let flush = "for _, key in ipairs(redis.call('KEYS', 'tg:0:{8209}:*')) do \
                     if key ~= KEYS[1] then redis.call('DEL', key) end end";
        let mut eval = redis::cmd("EVAL");
        eval.arg(flush).arg(1).arg("tg:0:{8209}:lock");
        eval.exec(&mut self.connection()).unwrap();
    }

    /// The keys of the bucket that belong to jobs.
    pub(crate) fn keys_of_jobs(&self) -> Vec<String> {
        let mut keys: Vec<String> = redis::cmd("KEYS")
            .arg("tg:0:{8209}:*")
            .query(&mut self.connection())
            .unwrap();
        // `due` is not listed, since its entries are dropped only when they are due.
        let of_bucket = ["lock", "seq", "queues", "q:", "due", "cleanup", "stale"];
        keys.retain(|key| {
            !of_bucket
                .iter()
                .any(|name| key["tg:0:{8209}:".len()..].starts_with(name))
        });
        keys.sort();
        keys
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) ready: usize,
    pub(crate) buried: u64,
    pub(crate) expired: u64,
    pub(crate) stale: u64,
    pub(crate) next_in: Option<Duration>,
}
