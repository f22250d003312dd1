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
    let is_settled = |totals: &JobsByState| totals.delayed + totals.ready + totals.leased == 0;
    wait_until(
        test_cluster,
        SETTLED_LIMIT,
        is_settled,
        async || {},
        verdict,
    )
    .await;
    let is_empty = |totals: &JobsByState| *totals == JobsByState::default();
    let queues = traffic.shared.queues();
    let respawn = async || {
        for queue in queues.clone() {
            let limit = RESPAWNED_MAX;
            client.send(ClientRequest::Respawn { queue, limit }).await;
        }
    };
    wait_until(test_cluster, EMPTY_LIMIT, is_empty, respawn, verdict).await;
    traffic.end().await;
}

async fn wait_until(
    test_cluster: &TestCluster,
    limit: Duration,
    is_there: impl Fn(&JobsByState) -> bool,
    mut meanwhile: impl AsyncFnMut(),
    verdict: &mut Verdict,
) {
    let deadline = Instant::now() + limit;
    loop {
        meanwhile().await;
        let totals = test_cluster.redis.totals().await;
        if is_there(&totals) {
            return;
        }
        if Instant::now() >= deadline {
            let text = format!("jobs remain that no consumer gets: {totals:?}");
            return verdict.add_finding(Defect::Orphan, now(), text);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
