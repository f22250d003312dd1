//! Moves a pool from one Redis to another, and back.

use super::daemons::restart;
use super::open_episode::{OpenEpisode, RECOVERY};
use crate::fault::PlannedFault;
use crate::history::Episode;
use crate::test_cluster::TestCluster;

/// Restarts one API after the other, so that it stores new jobs in the other Redis. All APIs read both, before
/// and after. A queue has consumers at each API, so the restarts excuse lateness only until shortly after the
/// last one.
pub(super) async fn change(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let open_episode = OpenEpisode::start(fault);
    test_cluster.redis.swap_pools();
    for api in &test_cluster.apis {
        api.change_settings(&test_cluster.redis);
        restart(api).await;
        tokio::time::sleep(fault.length() / test_cluster.apis.len() as u32).await;
    }
    vec![open_episode.end_excusing("the pool moved to its other Redis".to_owned(), RECOVERY)]
}
