//! Lanes of queues come and go.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Begun, again_and_again};
use crate::fault::Fault;
use crate::history::Episode;
use crate::site::Site;
use crate::traffic::QUEUES;

const PAUSE: Duration = Duration::from_millis(100);
/// Each queue has at least one; as many as this are on every node of a cluster.
const LANES_MAX: u16 = 8;

/// Nothing excuses that jobs are late: who does not know of a lane yet learns of it within a second. What the
/// queues were given last they keep.
pub(super) async fn change(site: &Site, fault: &Fault) -> Vec<Episode> {
    let begun = Begun::now(fault);
    let mut random = StdRng::seed_from_u64(fault.variant.into());
    let (mut changes, mut refused) = (0, 0);
    again_and_again(fault.length(), PAUSE, async || {
        let queue = site.queue(random.random_range(0..QUEUES));
        let api = &site.apis[random.random_range(0..site.apis.len())].daemon;
        let open = random.random_range(1..=LANES_MAX);
        match queue.try_set_lanes(api, open).await {
            Ok(answer) if answer.status == 200 => changes += 1,
            // What was struck before may not be over.
            Ok(_) | Err(_) => refused += 1,
        }
    })
    .await;
    vec![begun.end(format!(
        "the lanes of queues were changed {changes} times, {refused} changes failed"
    ))]
}
