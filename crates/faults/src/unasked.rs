//! Failovers that nobody asked for: on a busy machine a master may be taken for dead that is only slow.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::fault::Class;
use crate::history::{Episode, Moment, Span, now};
use crate::site::{Keeper, Servers, Site};

const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// From the silence that was seen to the word of another master.
const BEFORE: u64 = 5_000_000;
/// Until the old master has been told, and all follow the new one.
const AFTER: u64 = 5_000_000;

/// Watches who has the jobs, for ever. `note` hears of changes that no strike made.
pub(crate) async fn watch(site: &Site, note: impl Fn(Episode)) -> Infallible {
    let mut known: Option<(Leaders, Moment)> = None;
    loop {
        let leaders = look(&site.keeper).await;
        if let Some((before, at)) = known
            && before.servers != leaders.servers
            && before.failovers == leaders.failovers
        {
            note(episode(at));
        }
        known = Some((leaders, now()));
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Who has the jobs, and how many failovers strikes have made.
struct Leaders {
    servers: Vec<usize>,
    failovers: usize,
}

/// Looks while no strike changes it.
async fn look(keeper: &Keeper) -> Leaders {
    let made = || keeper.failovers.load(Ordering::Relaxed);
    match keeper.servers() {
        Servers::Alone(_) => std::future::pending().await,
        Servers::Watched(group) => {
            let group = group.lock().await;
            let failovers = made();
            let servers = vec![group.master_by(0).await];
            Leaders { servers, failovers }
        }
        Servers::Cluster { group, .. } => {
            let group = group.lock().await;
            let failovers = made();
            let servers = group.primaries().await;
            Leaders { servers, failovers }
        }
    }
}

/// The last look at which all was as before was at this moment.
fn episode(last_same: Moment) -> Episode {
    let span = Span {
        from: last_same - BEFORE,
        to: now() + AFTER,
    };
    Episode {
        class: Class::Failover,
        what: "failover that nobody asked for".to_owned(),
        span,
        excuses_until: span.to,
        may_lose: Some(span),
        spared: Vec::new(),
        spared_from: 0,
    }
}
