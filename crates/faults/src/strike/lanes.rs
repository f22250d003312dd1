//! Lanes of queues come and go.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidegate_testkit::fault_proxy::{Flow, Way, Weather};

use super::{Begun, MS, RECOVERY, TAKEOVER, again_and_again};
use crate::fault::Fault;
use crate::history::{Episode, now};
use crate::plan::LEASE_MS;
use crate::site::{Pod, Site};
use crate::traffic::LANED;

const PAUSE: Duration = Duration::from_millis(100);
/// Long enough for jobs to be published to a lane before it is closed.
const RACE_PAUSE: Duration = Duration::from_millis(200);
/// Each queue has at least one; as many as this are on every node of a cluster.
const LANES_MAX: u16 = 8;
/// A call that gets no answer is given up after this, and an API that has had none for so long is behind.
const CALL_LIMIT: u64 = 3000 * MS;

/// Nothing excuses that jobs are late: an API that does not know of a lane yet learns of it within a second. The
/// queues keep the lanes that they were given last.
pub(super) async fn change(site: &Site, fault: &Fault) -> Vec<Episode> {
    let begun = Begun::now(fault);
    let apis: Vec<&Pod> = site.apis.iter().collect();
    let what = change_by(site, &apis, fault, PAUSE, 1..=LANES_MAX).await;
    vec![begun.end(what)]
}

/// Closes lanes and opens them again while a daemon stands still that knows of them, or while what an API sends to Redis
/// is held back: then it arrives when lanes are closed that were open when it was sent.
pub(super) async fn race(site: &Site, fault: &Fault) -> Vec<Episode> {
    let (still, others) = {
        let place = fault.target % site.apis.len();
        let mut apis: Vec<&Pod> = site.apis.iter().collect();
        (apis.remove(place), apis)
    };
    let changing = async || change_by(site, &others, fault, RACE_PAUSE, [1, LANES_MAX]).await;
    let begun = Begun::now(fault);
    match fault.choose(4) {
        0 => {
            let pump = &site.pumps[fault.target % site.pumps.len()];
            pump.daemon.pause();
            let paused = now();
            let what = changing().await;
            pump.daemon.resume();
            vec![Episode {
                excuses_until: paused + LEASE_MS * MS + TAKEOVER,
                ..begun.end(format!("{what}, {} stood still", pump.name))
            }]
        }
        1 | 2 if !still.links.is_empty() => {
            let stalled = Weather {
                to_server: Way {
                    flow: Flow::Stalls,
                    ..Way::default()
                },
                ..Weather::default()
            };
            still.links.iter().for_each(|link| link.set(stalled));
            let what = changing().await;
            let passing = Weather::default();
            still.links.iter().for_each(|link| link.set(passing));
            let what = format!("{what}, nothing passed from {} to Redis", still.name);
            vec![begun.end_excusing(what, CALL_LIMIT + RECOVERY)]
        }
        _ => {
            still.daemon.pause();
            let what = changing().await;
            still.daemon.resume();
            vec![begun.end_excusing(format!("{what}, {} stood still", still.name), 0)]
        }
    }
}

/// Gives queues one of these numbers of lanes, again and again, and returns what came of it.
async fn change_by(
    site: &Site,
    apis: &[&Pod],
    fault: &Fault,
    pause: Duration,
    numbers: impl IntoIterator<Item = u16>,
) -> String {
    let numbers: Vec<u16> = numbers.into_iter().collect();
    let mut random = StdRng::seed_from_u64(fault.variant.into());
    let (mut changes, mut failed) = (0, 0);
    again_and_again(fault.length(), pause, async || {
        let queue = site.queue(LANED[random.random_range(0..LANED.len())]);
        let api = &apis[random.random_range(0..apis.len())].daemon;
        let open = numbers[random.random_range(0..numbers.len())];
        match queue.try_set_lanes(api, open).await {
            Ok(answer) if answer.status == 200 => changes += 1,
            // What was struck before may not be over.
            Ok(_) | Err(_) => failed += 1,
        }
    })
    .await;
    format!("the lanes of queues were changed {changes} times, {failed} changes failed")
}
