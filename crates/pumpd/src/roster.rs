//! The membership of this instance on the roster of a server, and who else is on it.
//!
//! It is renewed every third of a lease, whatever else is waited for. A renewal does not wait for the answer to the one
//! before: however long a server takes to answer, the membership does not end as long as calls reach it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidegate_store::{Roster, ServerBuckets, StoreError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::pump::Pool;

/// Between two tries to join after one failed.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Calls in flight at the same time: those of a lease, and one because the roster has changed.
const CALLS_AT_ONCE: usize = 4;

/// The reply of the last call of `roster`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Members {
    pub(crate) instances: Arc<[String]>,
    /// How often this instance was not on it before. Each time others may have taken anything from it.
    pub(crate) times_joined: u64,
}

/// Keeps this instance on the roster of a server, and tells who is on it. Never ends.
pub(crate) async fn stay(
    pool: &Pool,
    server: &watch::Receiver<ServerBuckets>,
    members: &watch::Sender<Option<Members>>,
) -> Infallible {
    let address = Arc::clone(&server.borrow().address);
    let mut changed = pool.roster_changed.subscribe();
    let mut in_flight = FuturesUnordered::new();
    let mut next_at = Instant::now();
    loop {
        tokio::select! {
            Some(joined) = in_flight.next() => {
                pool.membership.joined(&address, &joined);
                let next_in = match joined {
                    Ok(roster) => note(roster, members),
                    Err(_) => RETRY_PAUSE,
                };
                next_at = next_at.min(Instant::now() + next_in);
            }
            () = join_at(next_at, &mut changed) => {
                if in_flight.len() < CALLS_AT_ONCE {
                    let roster = server.borrow().roster;
                    in_flight.push(join(pool, roster));
                }
                next_at = Instant::now() + pool.config.lease / 3;
            }
        }
    }
}

async fn join_at(next_at: Instant, changed: &mut watch::Receiver<()>) {
    tokio::select! {
        () = sleep_until(next_at) => {}
        Ok(()) = changed.changed() => {}
    }
}

async fn join(pool: &Pool, roster: u16) -> Result<Roster, StoreError> {
    let limit = pool.config.lease;
    let lease_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let joining = pool.store.roster_join(roster, &pool.token, lease_ms);
    let joined = timeout(limit, joining).await;
    joined.unwrap_or_else(|_| Err(StoreError::timed_out(limit)))
}

/// Answers in which time a membership ends, so that its end is seen: just after it.
fn note(roster: Roster, members: &watch::Sender<Option<Members>>) -> Duration {
    let next_end = Duration::from_millis(roster.next_end_in_ms + 1);
    members.send_if_modified(|members| {
        let times_joined = members.as_ref().map_or(0, |it| it.times_joined);
        let now = Members {
            instances: roster.instances.into(),
            times_joined: times_joined + u64::from(roster.is_new),
        };
        let is_other = members.as_ref() != Some(&now);
        *members = Some(now);
        is_other
    });
    next_end
}
