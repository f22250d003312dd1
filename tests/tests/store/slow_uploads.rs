//! Many large uploads over a slow link take turns.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate_core::{NewJob, QueueKey};
use tidegate_store::{Store, StoreConfig};
use tidegate_testkit::fault_proxy::{DirectionConditions, NetworkConditions};
use tidegate_testkit::{FaultProxy, seed, start_redis};

use crate::outside_bodies::sized;

/// The link transfers the uploads that are in flight together in a tenth of the command timeout, and all uploads in a
/// little more than the timeout.
const BYTES_PER_SECOND: u32 = 7 << 20;
const COMMAND_TIMEOUT: Duration = Duration::from_secs(6);
const UPLOADS: usize = 50;
const BYTES: usize = 1_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_that_together_exceed_the_command_timeout_are_all_stored() {
    let redis = start_redis();
    let proxy = FaultProxy::start(redis.address(), seed()).await;
    proxy.set(NetworkConditions {
        to_server: DirectionConditions {
            bytes_per_second: Some(BYTES_PER_SECOND),
            ..DirectionConditions::default()
        },
        ..NetworkConditions::default()
    });
    let mut config = StoreConfig::new(format!("redis://{}", proxy.address()));
    config.command_timeout = COMMAND_TIMEOUT;
    let store = Store::connect(&config).await.unwrap();
    let queue = QueueKey::try_from("shop/large").unwrap();
    let jobs: Vec<NewJob> = (0..UPLOADS).map(|_| sized(BYTES)).collect();
    let began = Instant::now();
    let publishing = jobs.iter().map(|job| {
        let (store, queue) = (&store, &queue);
        async move { store.publish(queue, std::slice::from_ref(job), None).await }
    });
    for published in join_all(publishing).await {
        published.unwrap();
    }
    let took = began.elapsed();
    assert!(took > COMMAND_TIMEOUT, "the link was fast: {took:?}");
    assert_eq!(store.stats(&queue).await.unwrap().ready, UPLOADS as u64);
}
