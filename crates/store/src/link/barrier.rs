//! Waiting until what was written is on replicas or on disk, for many publishes at a time.
//!
//! ```text
//!  publish ─► script, over the shared connection ─► answered ─┐
//!  publish ─► script, over the shared connection ─► answered ─┤  gather
//!                                                             ▼
//!                     a connection of its own: barrier ─► WAIT or WAITAOF ─► all of them are answered
//! ```
//!
//! `WAIT` blocks its connection and counts what this connection wrote, so it can stand neither on the shared one
//! nor alone on another. But a server has one stream of writes, and whoever has confirmed a place in it has all
//! before it: a write of our own behind the publishes, and a wait for that one, is a wait for all of them.
//! `docs/decisions/0021-durability.md` has the alternatives.

mod carrier;
mod history;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{Client, RedisResult};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{sleep_until, timeout_at};

use super::line::Line;
use super::server::{Server, Waits};
use crate::durability::{Durability, NotDurable};
use crate::{Receipt, StoreError};
use carrier::{Caller, Carrier};
use history::History;

/// How many barriers of one kind may be under way at a server, each over a connection of its own.
const CARRIERS: usize = 4;
/// While one barrier is under way the next one begins so much later, unless the first ends before; while more are,
/// each time [`GAP_GROWTH`] times later. All four begin within 0.7 s, so that they are spread over the second that
/// passes between two writes to disk with `appendfsync everysec`.
const GAP: Duration = Duration::from_millis(20);
const GAP_GROWTH: u32 = 5;
/// What a caller allows the server to say that time is over.
const GRACE: Duration = Duration::from_millis(200);

/// All barriers at one server.
pub(crate) struct Barriers {
    client: Client,
    waits: Waits,
    history: Arc<History>,
    /// A permit for the question about the history that no publish waits for.
    questions: Arc<Semaphore>,
    /// Publishes gather by what they wait for.
    gatherings: Mutex<HashMap<Durability, mpsc::UnboundedSender<Caller>>>,
}

impl Barriers {
    pub(super) fn new(client: Client, waits: Waits) -> Self {
        Self {
            client,
            waits,
            history: Arc::default(),
            questions: Arc::new(Semaphore::new(1)),
            gatherings: Mutex::default(),
        }
    }

    /// Whether publishes from now on can be told to be part of the server's history.
    pub(crate) fn is_ready(&self) -> bool {
        self.history.is_known()
    }

    /// The right to ask for the history in a task; nothing if it is known, or is being asked for so.
    pub(crate) fn begin_question(&self) -> Option<OwnedSemaphorePermit> {
        match self.is_ready() {
            true => None,
            false => Arc::clone(&self.questions).try_acquire_owned().ok(),
        }
    }

    /// The server may have been restarted.
    pub(crate) fn forget_history(&self) {
        self.history.forget();
    }

    /// Waits for what was written with this receipt; `key` is the barrier of its bucket.
    pub(crate) async fn pass(
        &self,
        receipt: Receipt,
        key: String,
        wanted: Durability,
        timeout: Duration,
    ) -> Result<(), NotDurable> {
        let (sender, outcome) = oneshot::channel();
        let deadline = Instant::now() + timeout;
        let caller = Caller {
            receipt,
            key,
            deadline,
            outcome: sender,
        };
        let not_durable = |reason: String| NotDurable {
            wanted,
            reached: Durability::MEMORY,
            reason,
        };
        self.gather(wanted, caller)
            .map_err(|error| not_durable(error.to_string()))?;
        match timeout_at((deadline + GRACE).into(), outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(not_durable("the wait was given up".to_owned())),
            Err(_) => Err(not_durable(format!(
                "nothing was confirmed within {timeout:?}"
            ))),
        }
    }

    fn gather(&self, wanted: Durability, caller: Caller) -> RedisResult<()> {
        let mut gatherings = self
            .gatherings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let caller = match gatherings.get(&wanted) {
            None => caller,
            Some(gathering) => match gathering.send(caller) {
                Ok(()) => return Ok(()),
                // Its task has panicked.
                Err(mpsc::error::SendError(caller)) => caller,
            },
        };
        let carriers: RedisResult<Vec<Carrier>> =
            (0..CARRIERS).map(|_| self.carrier(wanted)).collect();
        let (sender, callers) = mpsc::unbounded_channel();
        tokio::spawn(serve(carriers?, callers));
        // Its receiver is there.
        let _ = sender.send(caller);
        gatherings.insert(wanted, sender);
        Ok(())
    }

    fn carrier(&self, wanted: Durability) -> RedisResult<Carrier> {
        let config = self.waits.manager_config().set_response_timeout(None);
        Ok(Carrier {
            line: Line::lazy(self.client.clone(), config, self.waits)?,
            wanted,
            history: Arc::clone(&self.history),
            slack: self.waits.command,
        })
    }
}

/// Sends those who wait together through barriers, until nobody can come any more.
async fn serve(mut free: Vec<Carrier>, mut callers: mpsc::UnboundedReceiver<Caller>) {
    let mut under_way = FuturesUnordered::new();
    let mut begun_at = Instant::now();
    loop {
        let first = tokio::select! {
            Some(carrier) = under_way.next() => {
                free.push(carrier);
                continue;
            }
            caller = callers.recv() => match caller {
                Some(caller) => caller,
                None => return,
            },
        };
        // Others join meanwhile.
        while !under_way.is_empty() {
            let next_at = begun_at + gap(under_way.len());
            tokio::select! {
                Some(carrier) = under_way.next() => free.push(carrier),
                () = sleep_until(next_at.into()), if !free.is_empty() => break,
            }
        }
        let mut group = vec![first];
        while let Ok(caller) = callers.try_recv() {
            group.push(caller);
        }
        if let Some(carrier) = free.pop() {
            begun_at = Instant::now();
            under_way.push(carrier.carry(group));
        }
    }
}

/// How long after the last one a barrier begins while so many are under way.
fn gap(under_way: usize) -> Duration {
    let growths = u32::try_from(under_way.saturating_sub(1)).unwrap_or(u32::MAX);
    GAP.saturating_mul(GAP_GROWTH.saturating_pow(growths))
}

impl Server {
    /// Asks the server which history of writes it is in.
    ///
    /// # Errors
    /// It does not say.
    pub(crate) async fn get_barriers_ready(&self, timeout: Duration) -> Result<(), StoreError> {
        let mut info = redis::cmd("INFO");
        info.arg("server").arg("replication");
        let asked = self.session(timeout).command::<String>(&info).await;
        let info = asked.inspect_err(|error| {
            tracing::debug!(server = %self, %error, "a server does not tell its history");
        })?;
        self.barriers.history.since(&info);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barriers_are_spread_over_a_second() {
        let gaps: Vec<u128> = (1..CARRIERS).map(|count| gap(count).as_millis()).collect();
        assert_eq!(gaps, [20, 100, 500]);
    }
}
