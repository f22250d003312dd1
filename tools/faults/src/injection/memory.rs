//! A Redis at `maxmemory` that stays in use.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, RedisControl};

use super::open_episode::{OpenEpisode, repeat_for};
use crate::fault::PlannedFault;
use crate::history::Episode;
use crate::test_cluster::TestCluster;

/// Far less than clients publish in a second, including bodies outside of records.
const ROOM_BYTES: u64 = 100_000;
/// The queue of the client whose attempts fail, which the run does not use otherwise.
const QUEUE: &str = "failing";
const JOBS: usize = 600;
const JOBS_PER_CALL: u16 = 100;
const ERROR_BYTES: usize = 1000;
/// For calls in flight when the memory is full, near timers, and the calls of other clients. The errors of all jobs
/// would be 6 MB.
const GROWTH_MAX: u64 = 2 * 1024 * 1024;
const PAUSE: Duration = Duration::from_millis(20);

/// Excuses nothing: stored jobs are delivered in time.
///
/// # Panics
/// If the data in a Redis grow.
pub(super) async fn use_full_redis(
    test_cluster: &TestCluster,
    fault: &PlannedFault,
) -> Vec<Episode> {
    let api = &test_cluster.apis[fault.target % test_cluster.apis.len()];
    let client = NativeClient::new(&api.daemon, test_cluster.namespace()).await;
    for _ in 0..JOBS {
        let published = client.publish(QUEUE, "max_attempts=4000", "x");
        published.await.expect(201);
    }
    let mut controls = test_cluster.redis.connect_to_all().await;
    let open_episode = OpenEpisode::start(fault);
    for control in &mut controls {
        control.limit_memory(Some(ROOM_BYTES)).await;
    }
    let full_from = data_bytes(&mut controls).await;
    let (mut failed, mut most) = (0, full_from.clone());
    repeat_for(fault.length(), PAUSE, async || {
        failed += fail_some(&client).await;
        let grown = data_bytes(&mut controls).await;
        most.iter_mut()
            .zip(grown)
            .for_each(|(most, bytes)| *most = bytes.max(*most));
    })
    .await;
    for control in &mut controls {
        control.limit_memory(None).await;
    }
    // Calls fail until the last server has memory.
    let episode = open_episode.end(format!("out of memory, {failed} attempts failed"));
    client
        .call(
            "POST",
            &format!("/queues/{QUEUE}/purge"),
            &json!({"state": "ready"}),
        )
        .await
        .expect(200);
    for (from, most) in full_from.into_iter().zip(most) {
        let allowed = from + ROOM_BYTES + GROWTH_MAX;
        assert!(
            most <= allowed,
            "the data of a full redis grew from {from} to {most} bytes"
        );
    }
    vec![episode]
}

/// Takes jobs, and ends their attempts with long errors; they are ready again. Returns how many.
async fn fail_some(client: &NativeClient) -> usize {
    let jobs = client.reserve(QUEUE, JOBS_PER_CALL).await;
    let error = "x".repeat(ERROR_BYTES);
    let failed = |job: &Value| json!({"lease": job["lease"], "error": error, "retry_in": "0ms"});
    let leases: Vec<Value> = jobs.iter().map(failed).collect();
    let outcomes = client.settle("fail", &json!({ "leases": leases })).await;
    outcomes.len()
}

/// The size of the data of each server: its memory without the buffers of connections and of the append-only file.
async fn data_bytes(controls: &mut [RedisControl]) -> Vec<u64> {
    let mut all = Vec::new();
    for control in controls {
        let info = control.info().await;
        let bytes = info.get("used_memory_dataset");
        let bytes = bytes.and_then(|bytes| bytes.parse().ok());
        all.push(bytes.expect("redis reports its memory"));
    }
    all
}
