//! Drains the queues at the end of a run, so that every job can be accounted for.

use std::time::Duration;
use tidegate_core::JobsByState;

use tokio::time::Instant;

use crate::history::{ClientRequest, now};
use crate::oracle::{Defect, Verdict};
use crate::test_cluster::TestCluster;
use crate::traffic::{FaultClient, Traffic};

/// Delays, leases and attempts of the last jobs need about 20 s, and delays by earlier faults some more.
const SETTLED_LIMIT: Duration = Duration::from_secs(90);
const EMPTY_LIMIT: Duration = Duration::from_secs(60);
/// How long the number of jobs may stay the same after the limit. A busy machine needs more time, but goes on.
const PROGRESS_LIMIT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(100);
/// More than the number of dead jobs in a queue.
const RESPAWNED_MAX: u64 = 1000;

/// Waits until only dead jobs are left, respawns them, and waits until no job is left. Adds a finding if jobs remain.
pub(crate) async fn drain(
    test_cluster: &TestCluster,
    traffic: &mut Traffic,
    client: &mut FaultClient,
    verdict: &mut Verdict,
) {
    traffic.stop_publishing().await;
    let unsettled = |totals: &JobsByState| totals.delayed + totals.ready + totals.leased;
    wait_until_none(test_cluster, SETTLED_LIMIT, unsettled, async || {}, verdict).await;
    let all = |totals: &JobsByState| unsettled(totals) + totals.dead + totals.done;
    let queues = traffic.shared.queues();
    let respawn = async || {
        for queue in queues.clone() {
            let limit = RESPAWNED_MAX;
            client.send(ClientRequest::Respawn { queue, limit }).await;
        }
    };
    wait_until_none(test_cluster, EMPTY_LIMIT, all, respawn, verdict).await;
    traffic.end().await;
}

/// Waits until `count` finds no job. Adds a finding if that takes longer than `limit`, and the count stays the same.
async fn wait_until_none(
    test_cluster: &TestCluster,
    limit: Duration,
    count: impl Fn(&JobsByState) -> u64,
    mut meanwhile: impl AsyncFnMut(),
    verdict: &mut Verdict,
) {
    let mut deadline = Instant::now() + limit;
    let mut fewest = u64::MAX;
    loop {
        meanwhile().await;
        let totals = test_cluster.redis.totals().await;
        let left = count(&totals);
        if left == 0 {
            return;
        }
        if left < fewest {
            fewest = left;
            deadline = deadline.max(Instant::now() + PROGRESS_LIMIT);
        }
        if Instant::now() >= deadline {
            let text = format!("jobs remain that no consumer gets: {totals:?}");
            return verdict.add_finding(Defect::Orphan, now(), text);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
