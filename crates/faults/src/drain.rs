//! The end of a run: every job comes to its end, so that each can be accounted for.

use std::time::Duration;

use tidegate_testkit::world::Totals;
use tokio::time::Instant;

use crate::history::now;
use crate::oracle::{Defect, Verdict};
use crate::site::Site;
use crate::traffic::{Client, Traffic};

/// Delays, leases and tries of the last jobs need some 20 s, and everything that may hold them up some more.
const SETTLED_LIMIT: Duration = Duration::from_secs(90);
const EMPTY_LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);
/// More than there are dead jobs in a queue.
const RESPAWNED_MAX: u64 = 1000;

/// Waits until only dead jobs are left, gives each of those a last try, and waits until nothing is left. What cannot be
/// is found.
pub(crate) async fn drain(
    site: &Site,
    traffic: &mut Traffic,
    client: &mut Client,
    verdict: &mut Verdict,
) {
    traffic.calm_down().await;
    let is_settled = |totals: &Totals| totals.delayed + totals.ready + totals.leased == 0;
    until(site, SETTLED_LIMIT, is_settled, async || {}, verdict).await;
    let is_empty = |totals: &Totals| *totals == Totals::default();
    let queues = traffic.shared.queues();
    let respawn = async || {
        for queue in queues.clone() {
            client.respawn(queue, RESPAWNED_MAX).await;
        }
    };
    until(site, EMPTY_LIMIT, is_empty, respawn, verdict).await;
    traffic.end().await;
}

async fn until(
    site: &Site,
    limit: Duration,
    is_there: impl Fn(&Totals) -> bool,
    mut meanwhile: impl AsyncFnMut(),
    verdict: &mut Verdict,
) {
    let deadline = Instant::now() + limit;
    loop {
        meanwhile().await;
        let totals = site.keeper.totals().await;
        if is_there(&totals) {
            return;
        }
        if Instant::now() >= deadline {
            let text = format!("jobs are left over that nobody can get: {totals:?}");
            return verdict.find(Defect::Orphan, now(), text);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
