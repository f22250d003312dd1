//! Failovers that nobody asked for: on a busy machine sentinels may take a master for dead that is only slow.

use std::convert::Infallible;
use std::time::Duration;

use crate::fault::Class;
use crate::history::{Episode, Moment, Span, now};
use crate::site::{Servers, Site};

const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// From the silence that the sentinels saw to their word of another master.
const BEFORE: u64 = 5_000_000;
/// Until the old master has been told, and all follow the new one.
const AFTER: u64 = 5_000_000;

/// Watches who is the master, for ever. `note` hears of changes that no strike made.
pub(crate) async fn watch(site: &Site, note: impl Fn(Episode)) -> Infallible {
    let Servers::Watched(group) = site.keeper.servers() else {
        return std::future::pending().await;
    };
    let mut known: Option<(usize, Moment)> = None;
    loop {
        // A strike keeps the group to itself until its own failover is over.
        let waited_since = now();
        let group = group.lock().await;
        let had_to_wait = now() - waited_since > micros(LOOK_INTERVAL);
        let master = group.master_by(0).await;
        drop(group);
        if let Some((before, at)) = known
            && before != master
            && !had_to_wait
        {
            note(episode(at));
        }
        known = Some((master, now()));
        tokio::time::sleep(LOOK_INTERVAL).await;
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
    }
}

const fn micros(time: Duration) -> u64 {
    time.as_micros() as u64
}
