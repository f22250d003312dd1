//! The membership of this instance on the roster, and who else is on it.
//!
//! A task of its own renews it every third of a lease: whatever else an instance waits for, a server that is silent for
//! one, its membership does not end by that.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tidegate_store::{Roster, StoreError};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::pump::Pool;

/// Between two tries to join while Redis does not answer.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The reply of the last call of `roster`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Members {
    pub(crate) instances: Arc<[String]>,
    /// How often this instance was not on it before. Each time others may have taken anything from it.
    pub(crate) times_joined: u64,
    /// Instances that cannot reach some servers, and the addresses of those.
    pub(crate) cut_off: BTreeMap<String, Vec<String>>,
}

/// Keeps this instance on the roster, and tells who is on it. Never ends.
pub(crate) async fn stay(pool: &Pool, members: &watch::Sender<Option<Members>>) -> Infallible {
    loop {
        let joined = join(pool).await;
        pool.membership.looked(&joined);
        let pause = match joined {
            Ok(roster) => {
                // Just after the end of a membership, so that its end is seen.
                let next_end = Duration::from_millis(roster.next_end_in_ms + 1);
                note(roster, members);
                next_end.min(pool.config.lease / 3)
            }
            Err(error) => {
                tracing::warn!(%error, "cannot stay on the roster");
                RETRY_PAUSE
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = pool.roster_changed.notified() => {}
        }
    }
}

/// A call that gets no answer for a third of the lease is given up: the next one may, in time.
async fn join(pool: &Pool) -> Result<Roster, StoreError> {
    let lease_ms = u64::try_from(pool.config.lease.as_millis()).unwrap_or(u64::MAX);
    let cut_off = pool.cut_off();
    let cut_off: Vec<&str> = cut_off.iter().map(|server| &**server).collect();
    let joining = pool.store.roster_join(&pool.token, lease_ms, &cut_off);
    let limit = pool.config.lease / 3;
    match timeout(limit, joining).await {
        Ok(joined) => joined,
        Err(_) => Err(StoreError::timed_out(limit)),
    }
}

fn note(roster: Roster, members: &watch::Sender<Option<Members>>) {
    members.send_if_modified(|members| {
        let times_joined = members.as_ref().map_or(0, |it| it.times_joined);
        let now = Members {
            instances: roster.instances.into(),
            times_joined: times_joined + u64::from(roster.is_new),
            cut_off: roster.cut_off,
        };
        let is_other = members.as_ref() != Some(&now);
        *members = Some(now);
        is_other
    });
}
