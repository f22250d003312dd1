//! The cost of batching requests and of queueing consumers. `cargo bench -p tidegate-engine` measures; `cargo test`
//! runs each benchmark once.

// A benchmark fails by a panic.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use bytes::Bytes;
use divan::Bencher;
use divan::counter::ItemsCount;
use futures_util::future::join_all;
use tidegate_core::{NewJob, QueueKey};
use tidegate_engine::bench::{BatcherBench, WaitersBench};
use tidegate_store::{Store, StoreConfig};
use tidegate_testkit::{RedisServer, start_redis};
use tokio::runtime::Runtime;

/// The number of concurrent requests.
const REQUESTS: [u64; 2] = [1, 64];

fn main() {
    divan::main();
}

/// A runtime with one thread, and a store on a private Redis.
struct Bench {
    runtime: Runtime,
    store: Store,
    _redis: RedisServer,
}

impl Bench {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let redis = start_redis();
        let config = StoreConfig::new(redis.url());
        let patience = Duration::from_secs(10);
        let store = runtime.block_on(Store::connect_within(&config, patience));
        Self {
            runtime,
            store: store.unwrap(),
            _redis: redis,
        }
    }
}

fn queue() -> QueueKey {
    QueueKey::try_from("shop/mail").unwrap()
}

fn job() -> NewJob {
    NewJob {
        body: Bytes::from_static(&[b'x'; 100]),
        attributes: Vec::new(),
        delay_ms: 0,
        ttl_ms: 60_000,
        tries: 1,
        mark: false,
        native: None,
    }
}

/// The batcher alone.
#[divan::bench(args = REQUESTS)]
fn gather(bencher: Bencher<'_, '_>, requests: u64) {
    let bench = Bench::start();
    let _inside = bench.runtime.enter();
    let batching = BatcherBench::new(&bench.store, queue());
    bencher.counter(ItemsCount::new(requests)).bench_local(|| {
        let all = join_all((0..requests).map(|number| batching.echo(number)));
        for (number, echoed) in (0..).zip(bench.runtime.block_on(all)) {
            assert_eq!(echoed.unwrap(), number);
        }
    });
}

/// The batcher, the store and Redis.
#[divan::bench(args = REQUESTS)]
fn publish(bencher: Bencher<'_, '_>, requests: u64) {
    let bench = Bench::start();
    let _inside = bench.runtime.enter();
    let batching = BatcherBench::new(&bench.store, queue());
    bencher.counter(ItemsCount::new(requests)).bench_local(|| {
        let all = join_all((0..requests).map(|_| batching.publish(job())));
        for ids in bench.runtime.block_on(all) {
            assert_eq!(ids.unwrap().len(), 1);
        }
    });
}

/// Consumers that find no job: the wait queue, the store and Redis.
#[divan::bench(args = REQUESTS)]
fn look(bencher: Bencher<'_, '_>, requests: u64) {
    let bench = Bench::start();
    let waiting = {
        let _on_runtime = bench.runtime.enter();
        WaitersBench::new(&bench.store, queue())
    };
    bencher.counter(ItemsCount::new(requests)).bench_local(|| {
        let all = join_all((0..requests).map(|_| waiting.consume_once()));
        assert!(!bench.runtime.block_on(all).contains(&true));
    });
}
