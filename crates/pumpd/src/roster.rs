//! The membership of this instance on the roster of a server, and the other members.
//!
//! The membership is renewed every third of the lease, independently of other calls. A renewal does not wait for the
//! reply to the previous one: the membership does not expire while calls reach the server, even if replies take long.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidegate_store::{Roster, ServerBuckets, StoreError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::instance::Instance;

/// Pause before a retry after a failed renewal.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Maximum number of calls in flight: the calls of one lease, and one because the roster has changed.
const CALLS_AT_ONCE: usize = 4;

/// The members in the last reply of `roster`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Members {
    pub(crate) instances: Arc<[String]>,
    /// How often this instance has joined. Before each time other instances may have taken its locks.
    pub(crate) times_joined: u64,
}

/// Keeps this instance on the roster of a server, and sends the members. Never returns.
pub(crate) async fn keep_membership(
    instance: &Instance,
    server: &watch::Receiver<ServerBuckets>,
    members: &watch::Sender<Option<Members>>,
) -> Infallible {
    let address = Arc::clone(&server.borrow().address);
    let mut changed = instance.roster_changed.subscribe();
    let mut in_flight = FuturesUnordered::new();
    let mut next_at = Instant::now();
    loop {
        tokio::select! {
            Some(joined) = in_flight.next() => {
                instance.membership.joined(&address, &joined);
                let next_in = match joined {
                    Ok(roster) => note(roster, members),
                    Err(_) => RETRY_PAUSE,
                };
                next_at = next_at.min(Instant::now() + next_in);
            }
            () = join_at(next_at, &mut changed) => {
                if in_flight.len() < CALLS_AT_ONCE {
                    let roster = server.borrow().roster;
                    in_flight.push(join(instance, roster));
                }
                next_at = Instant::now() + instance.config.lease / 3;
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

async fn join(instance: &Instance, roster: u16) -> Result<Roster, StoreError> {
    let limit = instance.config.lease;
    let lease_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let joining = instance
        .store
        .roster_join(roster, &instance.token, lease_ms);
    let joined = timeout(limit, joining).await;
    joined.unwrap_or_else(|_| Err(StoreError::timed_out(limit)))
}

/// Sends the members. Returns the time until just after the next membership expires, when the roster is read again.
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
